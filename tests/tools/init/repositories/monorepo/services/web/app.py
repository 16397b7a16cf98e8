def application(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]


if __name__ == "__main__":
    from wsgiref.simple_server import make_server

    make_server("", 8000, application).serve_forever()
