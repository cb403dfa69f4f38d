# A registry to talk to (Debian's docker-registry), and a proxy before it that does what bad networks and servers do.
# Must not: know how Slipway asks.
import http.client
import http.server
import json
import os
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

from slipway_test import require_program


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificates(directory):
    """Make an authority and a certificate for localhost, 127.0.0.1 and other.localhost; returns (authority, certificate,
    key)."""
    openssl = require_program("openssl")
    names = {name: os.path.join(directory, name) for name in ("ca.crt", "ca.key", "server.crt", "server.key", "server.csr", "ext")}
    quiet = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run([openssl, "req", "-x509", *ec, "-keyout", names["ca.key"], "-out", names["ca.crt"], "-days", "30", "-subj",
                    "/CN=Test authority"], **quiet)
    subprocess.run([openssl, "req", *ec, "-keyout", names["server.key"], "-out", names["server.csr"], "-subj", "/CN=localhost"],
                   **quiet)
    with open(names["ext"], "w") as file:
        file.write("subjectAltName=DNS:localhost,DNS:other.localhost,IP:127.0.0.1\n")
    subprocess.run([openssl, "x509", "-req", "-in", names["server.csr"], "-CA", names["ca.crt"], "-CAkey", names["ca.key"],
                    "-CAcreateserial", "-days", "30", "-extfile", names["ext"], "-out", names["server.crt"]], **quiet)
    return names["ca.crt"], names["server.crt"], names["server.key"]


class Registry:
    """docker-registry on loopback with a storage of its own; with `tls` by https, with `users` asking for passwords."""

    def __init__(self, directory, env, tls=None, users=None):
        self.port = free_port()
        self.host = f"localhost:{self.port}"
        os.makedirs(directory, exist_ok=True)
        self.log = os.path.join(directory, "log")
        config = {"version": "0.1", "log": {"level": "info"},
                  "storage": {"filesystem": {"rootdirectory": os.path.join(directory, "data")}, "delete": {"enabled": True}},
                  "http": {"addr": f"127.0.0.1:{self.port}"}}
        if tls:
            config["http"]["tls"] = {"certificate": tls[1], "key": tls[2]}
        if users:
            path = os.path.join(directory, "htpasswd")
            for i, (user, password) in enumerate(users.items()):
                subprocess.run([require_program("htpasswd"), "-bB" + ("c" if i == 0 else ""), "-C", "4", path, user, password],
                               check=True, stderr=subprocess.DEVNULL)
            config["auth"] = {"htpasswd": {"realm": "the lab", "path": path}}
        path = os.path.join(directory, "config.json")  # JSON is YAML
        with open(path, "w") as file:
            json.dump(config, file)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([require_program("docker-registry"), "serve", path], env=env, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    with open(self.log) as log:
                        raise AssertionError("docker-registry does not start: " + log.read()) from None
                time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Answer:
    """What the proxy sends instead of the registry's own answer, or how it changes it."""

    def __init__(self, status=None, headers=None, body=b"", *, change=None, cut_after=None, delay=0, tell_length=True):
        self.status, self.headers, self.body, self.tell_length = status, headers or {}, body, tell_length
        self.change, self.cut_after, self.delay = change, cut_after, delay


class Proxy:
    """Stands before a registry (or serves alone). `rule(method, path, headers, number)` returns an Answer or None for
    the registry's own; `requests` keeps (method, path, headers) of everything that came."""

    def __init__(self, upstream_port, rule=lambda *_: None, tls=None):
        self.rule, self.requests, self.lock = rule, [], threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                with proxy.lock:
                    proxy.requests.append((self.command, self.path, dict(self.headers)))
                    number = len(proxy.requests)
                rule = proxy.rule
                changed = rule(self.command, self.path, self.headers, number, *([body] if isinstance(rule, ReferrersRule) else []))
                if changed is not None and changed.delay:
                    time.sleep(changed.delay)
                if changed is not None and changed.status is not None:
                    return self.give(changed.status, changed.headers, changed.body, changed.cut_after,
                                     changed.tell_length)
                connection = http.client.HTTPConnection("127.0.0.1", upstream_port, timeout=30)
                headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
                connection.request(self.command, self.path, body or None, headers)
                response = connection.getresponse()
                data = response.read()
                status, headers = response.status, dict(response.getheaders())
                connection.close()
                if changed is not None and changed.change:
                    status, headers, data = changed.change(status, headers, data)
                self.give(status, headers, data, changed.cut_after if changed else None)

            def give(self, status, headers, body, cut_after, tell_length=True):
                self.send_response(status)
                # HEAD answers keep the length that the registry told.
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "date", "server", "connection"):
                        self.send_header(name, value)
                length = headers.get("Content-Length") if self.command == "HEAD" else None
                if tell_length:
                    self.send_header("Content-Length", str(length or len(body)))
                else:  # the end of the connection is the end of the answer
                    self.send_header("Connection", "close")
                self.end_headers()
                if self.command == "HEAD":
                    return
                self.wfile.write(body if cut_after is None else body[:cut_after])
                if cut_after is not None and cut_after < len(body):
                    self.wfile.flush()
                    self.close_connection = True

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that goes away is no news

        self.server = Server(("127.0.0.1", 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls[1], tls[2])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.host = f"localhost:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def paths(self, method="GET"):
        with self.lock:
            return [path for m, path, _ in self.requests if m == method]


class ReferrersRule:
    """Makes a Proxy before docker-registry, which has no referrers interface, one that has it: what refers to an image
    is kept under its tag sha256-HEX in that registry, as the specification wants it of a registry that gets the
    interface later. `page` referrers at a time; `filters`: apply artifactType and say so."""

    def __init__(self, registry, page=100, filters=True):
        self.registry, self.page, self.filters, self.asked = registry, page, filters, []

    def list(self, repository, digest):
        connection = http.client.HTTPConnection(self.registry.host, timeout=30)
        connection.request("GET", f"/v2/{repository}/manifests/{digest.replace(':', '-')}",
                           headers={"Accept": "application/vnd.oci.image.index.v1+json"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return json.loads(body)["manifests"] if response.status == 200 else []

    def note(self, repository, digest, body, media_type):
        """What such a registry does by itself when a manifest with a subject comes."""
        document = json.loads(body)
        subject = document["subject"]["digest"]
        entry = {"mediaType": media_type, "digest": digest, "size": len(body),
                 "artifactType": document.get("artifactType", document["config"]["mediaType"])}
        if "annotations" in document:
            entry["annotations"] = document["annotations"]
        entries = [one for one in self.list(repository, subject) if one["digest"] != digest] + [entry]
        put_manifest(self.registry.host, repository, subject.replace(":", "-"),
                     {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries},
                     "application/vnd.oci.image.index.v1+json")
        return subject

    def __call__(self, method, path, headers, number, body=b""):
        if method == "PUT" and "/manifests/" in path and b'"subject"' in body:
            import hashlib
            repository = path.split("/v2/", 1)[1].split("/manifests/")[0]
            digest = "sha256:" + hashlib.sha256(body).hexdigest()
            subject = json.loads(body)["subject"]["digest"]

            def change(status, answer, data):
                if status == 201:
                    self.note(repository, digest, body, headers["Content-Type"])
                return status, {**answer, "OCI-Subject": subject}, data
            return Answer(change=change)
        if "/referrers/" not in path:
            return None
        self.asked.append(path)
        url = urllib.parse.urlparse(path)
        repository, digest = url.path.split("/v2/", 1)[1].split("/referrers/")
        query = urllib.parse.parse_qs(url.query)
        entries, answer = self.list(repository, digest), {"Content-Type": "application/vnd.oci.image.index.v1+json"}
        if self.filters and "artifactType" in query:
            entries = [one for one in entries if one.get("artifactType") == query["artifactType"][0]]
            answer["OCI-Filters-Applied"] = "artifactType"
        start = int(query.get("n", ["0"])[0])
        if start + self.page < len(entries):
            query["n"] = [str(start + self.page)]
            answer["Link"] = f'<{url.path}?{urllib.parse.urlencode(query, doseq=True)}>; rel="next"'
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                 "manifests": entries[start:start + self.page]}
        return Answer(200, answer, json.dumps(index).encode())


def put_blob(host, repository, data, headers=None):
    """Upload a blob through the registry's own interface; returns its digest."""
    import hashlib
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("POST", f"/v2/{repository}/blobs/uploads/", headers={"Content-Length": "0", **(headers or {})})
    response = connection.getresponse()
    response.read()
    location = urllib.parse.urlparse(response.getheader("Location"))
    path = location.path + "?" + (location.query + "&" if location.query else "") + "digest=" + urllib.parse.quote(digest)
    connection.request("PUT", path, data, {"Content-Type": "application/octet-stream", **(headers or {})})
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 201, response.status
    return digest


def put_manifest(host, repository, tag, document, media_type):
    """Put a manifest or index; returns its digest."""
    data = json.dumps(document).encode() if not isinstance(document, bytes) else document
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("PUT", f"/v2/{repository}/manifests/{tag}", data, {"Content-Type": media_type})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    assert response.status == 201, text
    return response.getheader("Docker-Content-Digest")
