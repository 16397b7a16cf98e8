"""`runner schema`."""

from runner.cli.lines import show_document


def schema() -> None:
    """Print the JSON Schema of a definition, for editors."""
    import json

    from runner.definitions.definition import schema as of_definition

    show_document(json.dumps(of_definition(), indent=2) + "\n")
