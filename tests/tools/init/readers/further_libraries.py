"""Scripts of libraries that the kit itself does not need: where one is installed, they are run."""

from tests.support.scripts import Case

HYDRA = {
    "conf__config_yaml": """
        defaults:
          - optimizer: sgd
          - _self_
        trainer: {max_epochs: 10, amp: false}
        name: x
        sizes: [3]
        """,
    "conf__optimizer__sgd_yaml": "lr: 0.1\n",
    "conf__optimizer__adam_yaml": "lr: 0.2\nfused: true\n",
}
FURTHER = {
    "fire": Case(
        "fire",
        """
        import fire, json
        def main(path, epochs: int = 3, lr=0.1, amp=False, name="x", sizes=(1, 2)):
            print(json.dumps(locals()))
        if __name__ == "__main__":
            fire.Fire(main)
        """,
        {"path": "-a, b", "epochs": 2, "lr": -1, "amp": True, "name": "12", "sizes": "[3, 4]"},
        {"sizes": [3, 4]},
        frozenset({"path"}),
    ),
    "fire with a class": Case(
        "fire",
        """
        import fire, json
        class Base:
            def train_it(self, epochs: int = 3, resume=False, *, note=""):
                print(json.dumps([self.path, self.lr, self.size, epochs, resume, note]))
        class Trainer(Base):
            def __init__(self, path, lr=0.1):
                self.path, self.lr = path, lr
            @property
            def size(self):
                return 1
            @staticmethod
            def evaluate(ckpt):
                pass
            def _load(self, file):
                pass
        fire.Fire(Trainer)
        """,
        {"epochs": 2, "note": "a b", "command": "train_it", "resume": True, "lr": -1, "path": "12"},
        ["12", -1, 1, 2, True, "a b"],
        frozenset({"command", "path", "ckpt"}),
    ),
    "fire with an object": Case(
        "fire",
        """
        import fire, json
        class Trainer:
            def train(self, epochs=3):
                print(json.dumps(epochs))
        if __name__ == "__main__":
            fire.Fire(Trainer())
        """,
        {"epochs": 2, "command": "train"},
        2,
        frozenset({"command"}),
    ),
    "tyro": Case(
        "tyro",
        """
        import dataclasses, json, tyro
        from typing import Literal, Optional
        @dataclasses.dataclass
        class Optimizer:
            learning_rate: float = 1e-3
            amsgrad: bool = False
        @dataclasses.dataclass
        class Args:
            env_id: str
            optimizer: Optimizer
            total_timesteps: int = 1000
            cuda: bool = True
            kind: Literal["a", "b"] = "a"
            seed: Optional[int] = None
            sizes: tuple[int, ...] = (1, 2)
        print(json.dumps(dataclasses.asdict(tyro.cli(Args))))
        """,
        {
            "env_id": "x y",
            "optimizer.learning_rate": 0.5,
            "optimizer.amsgrad": True,
            "total_timesteps": 5,
            "cuda": False,
            "kind": "b",
            "seed": 3,
            "sizes": "4 5",
        },
        {
            "optimizer": {"learning_rate": 0.5, "amsgrad": True},
            "sizes": [4, 5],
        },
        frozenset({"env_id"}),
    ),
    "simple_parsing": Case(
        "simple_parsing",
        """
        import json
        from dataclasses import dataclass
        from simple_parsing import ArgumentParser
        @dataclass
        class Options:
            data_dir: str
            lr: float = 0.1
            use_amp: bool = False
        parser = ArgumentParser()
        parser.add_argument("--epochs", type=int, default=3)
        parser.add_arguments(Options, dest="options")
        args = parser.parse_args()
        print(json.dumps({"epochs": args.epochs, **vars(args.options)}))
        """,
        {"data_dir": "a b", "lr": 0.5, "use_amp": True, "epochs": 1},
        {},
        frozenset({"data_dir"}),
    ),
    "jsonargparse": Case(
        "jsonargparse",
        """
        import dataclasses, json
        from typing import Optional
        from jsonargparse import CLI
        @dataclasses.dataclass
        class Optimizer:
            lr: float = 0.1
        def main(data: str, n_epochs: int = 3, amp: bool = False, opt: Optimizer = Optimizer(), seed: int = 0):
            print(json.dumps([data, n_epochs, amp, opt.lr, seed]))
        CLI(main)
        """,
        {"data": "x y", "n_epochs": 2, "amp": True, "opt.lr": 0.5, "seed": 3},
        ["x y", 2, True, 0.5, 3],
        frozenset({"data"}),
    ),
    "hydra": Case(
        "hydra",
        """
        import json, hydra
        from omegaconf import OmegaConf
        @hydra.main(version_base=None, config_path="conf", config_name="config")
        def main(cfg):
            print(json.dumps(OmegaConf.to_container(cfg)))
        if __name__ == "__main__":
            main()
        """,
        {"optimizer": "adam", "optimizer.lr": 0.5, "trainer.max_epochs": 2, "name": "it's a, b", "sizes": "[1, 2]"},
        {
            "optimizer": {"lr": 0.5, "fused": True},
            "trainer": {"max_epochs": 2, "amp": False},
            "sizes": [1, 2],
        },
        beside=HYDRA,
        is_open=True,
    ),
    "omegaconf": Case(
        "omegaconf",
        """
        import json
        from omegaconf import OmegaConf
        print(json.dumps(OmegaConf.to_container(OmegaConf.from_cli())))
        """,
        {"lr": 0.5, "name": "it's: a, #b", "a.b": True, "sizes": "[1, 2]"},
        {"a": {"b": True}, "sizes": [1, 2]},
        is_open=True,
    ),
}
