# SPDX-License-Identifier: Apache-2.0
"""The servers to measure. They listen on Unix sockets in their own folder; clients are ended with them."""
import subprocess

from rig import wait_until

from .place import find
from .programs import Program, text

NGINX = """
daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen unix:nginx.sock ssl;
    ssl_certificate cert.pem; ssl_certificate_key key.pem;
    root pages;
    default_type text/html;
    ssi on; gzip on; gzip_comp_level 9;
    location ~ ^/(?<page>[a-z]+)\\.html$ { }
  }
}
"""


def nginx(place):
    """TLS, server-side includes and gzip."""
    place.call("mkdir", "pages")
    (place.dir / "nginx.conf").write_text(NGINX)
    (place.dir / "pages/part.html").write_bytes(text(100_000))
    (place.dir / "pages/index.html").write_text('<!--# include virtual="/part.html" -->' * 2)
    place.call("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bench", "-days", 2,
               "-keyout", "key.pem", "-out", "cert.pem")
    server = place.spawn("nginx", "-p", place.dir, "-c", "nginx.conf", "-e", "stderr")
    wait_until((place.dir / "nginx.sock").exists, 20, "nginx")
    for _ in range(2):
        place.spawn(find("python3"), place.load("tls_client.py"), "nginx.sock", "/index.html")
    return [server.pid]


def redis(place):
    """Lists, a sorted set and a Lua script."""
    server = place.spawn("redis-server", "--port", 0, "--unixsocket", "redis.sock", "--save", "", "--appendonly", "no")
    wait_until((place.dir / "redis.sock").exists, 20, "redis-server")
    bench = ["redis-benchmark", "-s", "redis.sock", "-q", "-n", 100_000_000, "-c", 4]
    place.call("redis-benchmark", "-s", "redis.sock", "-q", "-n", 1000, "lpush", "list", "element:__rand_int__")
    place.spawn(*bench, "-P", 4, "sort", "list", "by", "nosort", "get", "#", "limit", "0", "500")
    place.spawn(*bench, "-r", 100_000, "-P", 16, "zadd", "set", "__rand_int__", "member:__rand_int__")
    place.spawn(*bench, "eval", "local s = 0 for i = 1, 2000 do s = s + #tostring(i) end return s", 0)
    return [server.pid]


def postgres(place):
    place.call("initdb", "-D", "data", "-U", "bench", "--auth=trust", "--no-sync", "--locale=C")
    server = place.spawn("postgres", "-D", "data", "-k", place.dir, "-c", "listen_addresses=")
    ready = place.words(["pg_isready", "-q", "-h", place.dir])
    wait_until(lambda: subprocess.run(ready, env=place.environment).returncode == 0, 30, "postgres")
    client = [find("pgbench"), "-h", place.dir, "-U", "bench"]
    place.call(*client, "-i", "-q", "-s", 2, "postgres")
    place.spawn(*client, "-S", "-c", 2, "-T", 500, "postgres")
    return [server.pid]


SERVERS = [
    Program("nginx", {"nginx": "nginx-light", "openssl": "openssl"}, nginx),
    Program("redis", {"redis-server": "redis-server", "redis-benchmark": "redis-tools"}, redis),
    Program("postgres", {"postgres": "postgresql", "pgbench": "postgresql"}, postgres),
]
