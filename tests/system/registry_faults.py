"""Registries and networks that misbehave: whatever comes, an image is whole or not there, and the reason is told.

Must not: reach any network but loopback.
"""
import json
import os
import signal
import socket
import subprocess
import time

from registry_server import Answer
from registry_test import RegistryTest
from slipway_test import main, program, require_program, run

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Faults(RegistryTest):
    def pull_through(self, rule, *arguments, **more):
        """Push an image and pull it through a proxy with a rule; returns (result, proxy)."""
        self.layout = self.push_small()
        self.small, self.large = sorted(self.layer_digests(self.layout), key=lambda d: os.path.getsize(
            os.path.join(self.layout, "blobs/sha256", d[7:])))
        proxy = self.proxy(rule)
        return self.slipway("pull", f"{proxy.host}/lab/small:v1", *arguments, **more), proxy

    def of_large(self, path):
        return path.endswith("/blobs/" + self.large)

    def nothing_was_stored(self):
        self.assertEqual(self.slipway("images", "--json").json(), [])
        self.check_blobs()

    def test_busy_servers_are_asked_again(self):
        for status, headers in ((429, {"Retry-After": "1"}), (500, {}), (503, {})):
            with self.subTest(status):
                seen = {}

                def rule(_, path, *__):
                    seen[path] = seen.get(path, 0) + 1
                    return Answer(status, headers) if seen[path] == 1 else None
                result, proxy = self.pull_through(rule)
                self.assert_succeeds(result)
                self.assertEqual(set(seen.values()), {2})
                if headers:
                    self.assertGreater(result.seconds, 1)
                self.assert_succeeds(self.slipway("rmi", f"{proxy.host}/lab/small:v1"))

    def test_broken_servers_are_given_up(self):
        result, proxy = self.pull_through(lambda *_: Answer(500, body=b'{"errors":[{"code":"X","message":"out of order"}]}'))
        self.assert_fails(result, "is overloaded or broken (HTTP 500)", 'the registry says: "out of order"', "try: ")
        self.assertEqual(len(proxy.paths()), 6)
        self.nothing_was_stored()

    def test_a_connection_that_is_cut_is_continued(self):
        cuts = []

        def rule(_, path, headers, __):
            if self.of_large(path) and len(cuts) < 3:
                cuts.append(headers.get("Range"))
                return Answer(cut_after=70_000)
        result, proxy = self.pull_through(rule)
        self.assert_succeeds(result)
        self.assertEqual(cuts, [None, "bytes=70000-", "bytes=140000-"])
        self.assertEqual([headers.get("Range") for _, path, headers in proxy.requests if self.of_large(path)][3:], ["bytes=210000-"])
        self.check_blobs()

    def test_a_killed_pull_is_continued(self):
        def rule(_, path, headers, __):
            if self.of_large(path) and "Range" not in headers:
                return Answer(cut_after=100_000)
            if self.of_large(path) and not resumed:
                return Answer(delay=30)
        resumed = []
        self.layout = self.push_small()
        self.large = max(self.layer_digests(self.layout), key=lambda d: os.path.getsize(os.path.join(self.layout, "blobs/sha256", d[7:])))
        proxy = self.proxy(rule)
        process = subprocess.Popen([program(), "pull", f"{proxy.host}/lab/small:v1"], env=self.env, stderr=subprocess.DEVNULL)
        partial = os.path.join(self.store, "partial", self.large[7:])
        deadline = time.monotonic() + 20
        while not (os.path.exists(partial) and os.path.getsize(partial) == 100_000) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        resumed.append(True)
        before = len(proxy.requests)
        self.pull(f"{proxy.host}/lab/small:v1")
        asked = [headers.get("Range") for _, path, headers in proxy.requests[before:] if self.of_large(path)]
        self.assertEqual(asked, ["bytes=100000-"])
        self.check_blobs()

    def with_a_part(self, data, rule):
        """Pull with a part of the large layer in the store already."""
        layout = self.push_small()
        large = max(self.layer_digests(layout), key=lambda d: os.path.getsize(os.path.join(layout, "blobs/sha256", d[7:])))
        with open(os.path.join(layout, "blobs/sha256", large[7:]), "rb") as file:
            blob = file.read()
        os.makedirs(os.path.join(self.store, "partial"))
        with open(os.path.join(self.store, "partial", large[7:]), "wb") as file:
            file.write(data(blob))
        proxy = self.proxy(lambda method, path, headers, number: rule(blob, headers) if large in path else None)
        self.pull(f"{proxy.host}/lab/small:v1")
        self.check_blobs()
        self.assertEqual(os.listdir(os.path.join(self.store, "partial")), [])
        return [headers.get("Range") for _, path, headers in proxy.requests if large in path]

    def test_a_kept_part_that_is_wrong_is_fetched_anew(self):
        self.assertEqual(self.with_a_part(lambda blob: b"x" * 1000, lambda *_: None), ["bytes=1000-", None])

    def test_a_kept_part_that_is_whole_is_not_fetched(self):
        self.assertEqual(self.with_a_part(lambda blob: blob, lambda *_: None), [])

    def test_a_server_without_ranges(self):
        whole = lambda blob, headers: Answer(200, {}, blob)
        self.assertEqual(self.with_a_part(lambda blob: blob[:5000], whole), ["bytes=5000-"])

    def test_a_range_that_is_refused(self):
        refuse = lambda blob, headers: Answer(416) if "Range" in headers else None
        self.assertEqual(self.with_a_part(lambda blob: blob[:5000], refuse), ["bytes=5000-", None])

    def test_another_range_than_was_asked_for(self):
        def rule(blob, headers):
            return Answer(206, {"Content-Range": f"bytes 0-{len(blob) - 1}/{len(blob)}"}, blob) if "Range" in headers else None
        with self.assertRaises(AssertionError) as caught:
            self.with_a_part(lambda blob: blob[:5000], rule)
        self.assertIn("sends another part", str(caught.exception))

    def test_wrong_contents(self):
        def flip(status, headers, data):
            return status, headers, data[:1000] + bytes([data[1000] ^ 1]) + data[1001:]
        result, _ = self.pull_through(lambda _, path, *__: Answer(change=flip) if self.of_large(path) else None)
        self.assert_fails(result, "sent something else than the layer " + self.large, "its digest is sha256:", "try: ")
        self.nothing_was_stored()
        self.assertNotIn(self.large[7:], os.listdir(os.path.join(self.store, "partial")))

    def test_too_many_bytes(self):
        longer = lambda status, headers, data: (status, headers, data + b"more")
        result, _ = self.pull_through(lambda _, path, *__: Answer(change=longer) if self.of_large(path) else None)
        self.assert_fails(result, "sends more than the")
        self.nothing_was_stored()

    def test_wrong_manifests(self):
        other = lambda status, headers, data: (status, headers, data.replace(b"{", b"{ ", 1))
        result, _ = self.pull_through(lambda _, path, *__: Answer(change=other) if "/manifests/" in path else None)
        self.assert_fails(result, "sent something else than sha256:", "try: ")
        result, _ = self.pull_through(lambda _, path, *__: Answer(200, {"Content-Type": OCI_MANIFEST}, b"<html>")
                                      if "/manifests/" in path else None)
        self.assert_fails(result, "the manifest of", "JSON")
        self.nothing_was_stored()

    def test_a_pinned_digest_is_held_against_what_comes(self):
        layout = self.push_small()
        proxy = self.proxy(lambda _, path, *__: Answer(200, {"Content-Type": OCI_MANIFEST}, b'{"schemaVersion":2}')
                           if "/manifests/" in path else None)
        with open(os.path.join(layout, "index.json")) as file:
            digest = json.load(file)["manifests"][0]["digest"]
        self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small@{digest}"), "sent something else than " + digest)

    def test_a_config_that_is_wrong(self):
        other = lambda status, headers, data: (status, headers, data + b" ")
        result, _ = self.pull_through(lambda _, path, *__: Answer(change=other)
                                      if "/blobs/" in path and path.rsplit("/", 1)[1] not in (self.small, self.large) else None)
        self.assert_fails(result, "sent something else than sha256:")
        self.nothing_was_stored()

    def test_a_missing_layer(self):
        result, _ = self.pull_through(lambda _, path, *__: Answer(404) if self.of_large(path) else None)
        self.assert_fails(result, "the registry lacks a layer (HTTP 404)", "try: ")
        self.nothing_was_stored()

    def test_a_server_that_stalls(self):
        stalled = []

        def rule(_, path, *__):
            if self.of_large(path) and not stalled:
                stalled.append(path)
                return Answer(delay=60)
        result, proxy = self.pull_through(rule, env={"SLIPWAY_HTTP_TIMEOUT": "3"})
        self.assert_succeeds(result)
        self.assertEqual(sum(self.of_large(path) for path in proxy.paths()), 2)
        self.assertLess(result.seconds, 40)

    def test_a_host_that_does_not_answer(self):
        """Its queue is full: greetings stay without an answer, as behind a firewall that drops them."""
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            waiting = []
            for _ in range(4):
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(deaf.getsockname())
            result = self.slipway("pull", f"127.0.0.1:{deaf.getsockname()[1]}/lab/small", env={"SLIPWAY_HTTP_TIMEOUT": "1"})
            for each in waiting:
                each.close()
        self.assert_fails(result, "cannot reach 127.0.0.1", "try: check host and port")
        self.assertLess(result.seconds, 5)

    def test_refused(self):
        result, proxy = self.pull_through(lambda *_: Answer(403))
        self.assert_fails(result, 'does not let you have "lab/small" (HTTP 403)', "without credentials", "skopeo login")
        self.assertEqual(len(proxy.paths()), 1)

    def test_a_way_to_log_in_that_is_not_known(self):
        result, _ = self.pull_through(lambda *_: Answer(401, {"WWW-Authenticate": "Negotiate"}))
        self.assert_fails(result, 'asks for a way to log in that is not known: "negotiate"')

    def test_redirects_in_a_circle(self):
        result, _ = self.pull_through(lambda method, path, *_: Answer(307, {"Location": path}))
        self.assert_fails(result, "redirects in a circle")

    def test_redirects_to_something_else_than_http(self):
        result, _ = self.pull_through(lambda method, path, *_: Answer(307, {"Location": "file:///etc/passwd"}))
        self.assert_fails(result, '"file:///etc/passwd" is no http or https address')

    def test_a_full_disk(self):
        layout = self.push_small("lab/big:v1", size=12 << 20)
        os.mkdir(self.path("small"))
        script = 'mount -t tmpfs -o size=8m none "$1" || exit 99; "$2" pull "$3"; status=$?; find "$1" -path "*/locks" -prune -o -type f -size +0 -print; exit $status'
        result = run([require_program("unshare"), "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", self.path("small"),
                      program(), f"{self.registry.host}/lab/big:v1"], env={**self.env, "SLIPWAY_STORE": self.path("small/store")})
        self.assert_status(result, 125)
        self.assertIn("No space left", result.stderr)
        large = max(self.layer_digests(layout), key=lambda d: os.path.getsize(os.path.join(layout, "blobs/sha256", d[7:])))
        self.assertNotIn(large[7:], result.stdout)

    def test_gc_empties_the_parts(self):
        result, _ = self.pull_through(lambda _, path, *__: Answer(404) if self.of_large(path) else None)
        self.assert_status(result, 125)
        self.assertNotEqual(os.listdir(os.path.join(self.store, "partial")), [])
        self.assert_succeeds(self.slipway("gc"))
        self.assertEqual(os.listdir(os.path.join(self.store, "partial")), [])


if __name__ == "__main__":
    main()
