"""As much of a registry as `docker push` needs (the distribution specification's v2 API), kept in memory."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


class Handler(BaseHTTPRequestHandler):
    """Blobs by their digest, manifests by digest and tag."""

    protocol_version = "HTTP/1.1"
    held: ClassVar[dict[str, bytes]] = {}
    uploads: ClassVar[dict[str, bytes]] = {}

    def do_HEAD(self) -> None:
        body = self.held.get(self.path)
        self._answer(404 if body is None else 200, {}, b"" if body is None else body, head=True)

    def do_GET(self) -> None:
        body = b"{}" if self.path == "/v2/" else self.held.get(self.path)
        self._answer(404 if body is None else 200, {}, body or b"")

    def do_POST(self) -> None:
        self._body()
        place = f"{self.path.partition('?')[0]}{len(self.uploads)}"
        self.uploads[place] = b""
        self._answer(202, {"Location": place, "Docker-Upload-UUID": place.rpartition("/")[2]})

    def do_PATCH(self) -> None:
        self.uploads[self.path] += self._body()
        last = max(0, len(self.uploads[self.path]) - 1)
        self._answer(202, {"Location": self.path, "Range": f"0-{last}"})

    def do_PUT(self) -> None:
        body = self._body()
        path, _, query = self.path.partition("?")
        if path in self.uploads:
            body = self.uploads.pop(path) + body
            digest = re.sub("%3[aA]", ":", query.partition("digest=")[2])
            path = re.sub(r"uploads/.*", digest, path)
        else:
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            self.held[f"{path.rpartition('/')[0]}/{digest}"] = body
        self.held[path] = body
        self._answer(201, {"Location": path, "Docker-Content-Digest": digest})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"", *, head: bool = False) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        if self.path.startswith("/v2/") and "/manifests/" in self.path and body:
            self.send_header("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
            self.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(body).hexdigest())
        self.end_headers()
        if not head:
            self.wfile.write(body)


@contextmanager
def registry() -> Iterator[str]:
    """Serve on this machine; engines take 127.0.0.0/8 without TLS."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
