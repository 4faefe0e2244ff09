# SPDX-License-Identifier: Apache-2.0
"""A load for the stacks line: requests over TLS to a Unix socket, five for each connection. Arguments: SOCKET PAGE."""
import http.client, socket, ssl, sys

CONNECTIONS = 200_000
REQUESTS = 5


class Client(http.client.HTTPConnection):
    def connect(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.socket(socket.AF_UNIX)
        plain.connect(sys.argv[1])
        self.sock = context.wrap_socket(plain)


for _ in range(CONNECTIONS):
    client = Client("bench")
    for _ in range(REQUESTS):
        client.request("GET", sys.argv[2], headers={"Accept-Encoding": "gzip"})
        client.getresponse().read()
    client.close()
