"""An HTTP port that answers every GET request with one text, such as the state of the workers or metrics."""

from __future__ import annotations

import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from typing import Callable, Tuple

Address = Tuple[str, int]   # the host is empty for all addresses
TEXT = "text/plain; charset=utf-8"


class Port:
    """Answers in threads, because handlers may block the event loop. `answer` returns the status and the text."""

    def __init__(self, address: Address, answer: Callable[[], Tuple[int, str]], content_type: str = TEXT) -> None:
        class Answer(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                status, text = answer()
                body = text.encode()
                self.send_response_only(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:   # the client has closed the connection
                pass

        self._server = Server(address, Answer, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = _listen(*address)
        threading.Thread(target=self._server.serve_forever, name="jobq port", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _listen(host: str, port: int) -> socket.socket:
    if host == "" and socket.has_dualstack_ipv6():
        return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family)
