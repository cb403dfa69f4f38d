# A catalogue's entries and the web server that has their files, which can be told to do what bad ones do.
# Must not: reach for anything beyond loopback.
import hashlib
import json
import os
import subprocess

from registry_server import Answer, Proxy
from slipway_test import SlipwayTest, require_program


class FetchTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.files, self.faults = {}, []
        self.env.update(SLIPWAY_SITE=self.path("site"), SLIPWAY_HTTP_TIMEOUT="5", XDG_CONFIG_HOME=self.path("config"))
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            self.env.pop(name, None)
            self.env.pop(name.upper(), None)
        self.web = self.server()
        self.data = os.urandom(3_000_000)
        self.files["/data.bin"] = self.data

    def server(self, tls=None):
        proxy = Proxy(0, self.rule, tls)
        self.addCleanup(proxy.stop)
        return proxy

    def rule(self, method, path, headers, number):
        """Serve self.files with ranges; the next of self.faults changes the answer."""
        fault = self.faults.pop(0) if self.faults else None
        if callable(fault):
            return fault(path, headers)
        if path not in self.files:
            return Answer(404, body=b"no")
        data = self.files[path]
        cut = fault
        if "Range" in headers:
            start = int(headers["Range"].split("=")[1].rstrip("-"))
            if start >= len(data):
                return Answer(416, {"Content-Range": f"bytes */{len(data)}"})
            return Answer(206, {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}, data[start:], cut_after=cut)
        return Answer(200, {}, data, cut_after=cut)

    def url(self, path, web=None):
        return f"http://{(web or self.web).host}{path}"

    def entry(self, *files, name="pictures", **about):
        """Write a catalogue entry; returns its path."""
        os.makedirs(self.path("catalogue"), exist_ok=True)
        document = {"name": name, "version": "1", "license": "CC0-1.0", "description": "for tests", "files": list(files),
                    **about}
        return self.write(f"catalogue/{name}.json", json.dumps(document))

    def describe(self, served, **more):
        return {"url": self.url(served), "sha256": hashlib.sha256(self.files[served]).hexdigest(),
                "size": len(self.files[served]), **more}

    def fetch(self, *options, name=None, output="out.sqfs", **more):
        return self.slipway("fetch", name or self.path("catalogue/pictures.json"), "-o", self.path(output), *options, **more)

    def inside(self, name, pack="out.sqfs"):
        return subprocess.run([require_program("unsquashfs"), "-cat", self.path(pack), name], check=True,
                              stdout=subprocess.PIPE).stdout

    def left(self):
        directory = os.path.join(self.store, "partial")
        return os.listdir(directory) if os.path.isdir(directory) else []

    def ranges(self):
        return [headers.get("Range") for _, _, headers in self.web.requests]
