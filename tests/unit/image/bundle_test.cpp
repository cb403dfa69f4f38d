// Sigstore bundles and cosign's manifests: read as written, and no changed byte is believed.
// Must not: use a key that was not made in the test.
#include "../../../src/image/trust/bundle.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include "../../../src/image/trust/base64.hpp"
#include "../../../src/image/trust/cosign.hpp"
#include "../../../src/image/trust/openssl.hpp"
#include "fixture.hpp"
#include "slipway/base/json.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

const std::string kManifest = R"({"schemaVersion":2})";
const std::string kType = "application/vnd.in-toto+json";

std::string bytes_of_hex(const std::string& hex) {
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2)
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
}

/// A key pair in files, and who believes it.
struct Key {
    Scratch scratch;
    std::string file = scratch / "key.pem", public_file = scratch / "key.pub";
    TrustedKeys trusted;
    explicit Key(bool ed25519) {
        const KeyPtr key(ed25519 ? EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")
                                 : EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
        REQUIRE(key);
        const BioPtr secret(BIO_new_file(file.c_str(), "w"));
        const BioPtr open(BIO_new_file(public_file.c_str(), "w"));
        REQUIRE(PEM_write_bio_PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                         nullptr) == 1);
        REQUIRE(PEM_write_bio_PUBKEY(open.get(), key.get()) == 1);
        BIO_flush(secret.get());
        BIO_flush(open.get());
        trusted.add_file(public_file);
    }
    std::string sign(std::string_view message) const {
        return SigningKey(file).sign(message).bytes;
    }
    std::string hint() const { return to_base64(bytes_of_hex(SigningKey(file).id().hex())); }
};

std::string statement(const std::string& predicate = "https://sigstore.dev/cosign/sign/v1",
                      const std::string& subject = sha256(kManifest).hex()) {
    return to_text({{"_type", "https://in-toto.io/Statement/v1"},
                    {"subject", Json::array({Json{{"digest", Json{{"sha256", subject}}}}})},
                    {"predicateType", predicate},
                    {"predicate", Json::object()}});
}

Json bundle_around(const Key& key) {
    return {{"mediaType", "application/vnd.dev.sigstore.bundle.v0.3+json"},
            {"verificationMaterial", Json{{"publicKey", Json{{"hint", key.hint()}}}}}};
}

Json envelope_bundle(const Key& key, const std::string& payload, const std::string& type = kType) {
    Json bundle = bundle_around(key);
    bundle["dsseEnvelope"] = {
        {"payload", to_base64(payload)},
        {"payloadType", type},
        {"signatures",
         Json::array(
             {Json{{"sig", to_base64(key.sign(pre_authentication_encoding(type, payload)))}}})}};
    return bundle;
}

Json message_bundle(const Key& key) {
    Json bundle = bundle_around(key);
    const std::string digest = bytes_of_hex(sha256(kManifest).hex());
    bundle["messageSignature"] = {
        {"messageDigest", Json{{"algorithm", "SHA2_256"}, {"digest", to_base64(digest)}}},
        {"signature", to_base64(key.sign(kManifest))}};
    return bundle;
}

Verdict judge(const Json& bundle, const Key& key) {
    return judge_bundle(to_text(bundle), sha256(kManifest), kManifest, key.trusted);
}

}  // namespace

TEST_CASE("base64 is read strictly") {
    for (const std::string text : {"", "a", "ab", "abc", "abcd", "\xff\xfe\xfd"})
        CHECK(from_base64(to_base64(text)) == text);
    CHECK(to_base64("a") == "YQ==");
    CHECK(from_base64("YQ") == "a");
    CHECK(from_base64("-_-_") == from_base64("+/+/"));
    for (const char* text :
         {"Y", "YQ=", "YQ===", "Y===", "YR==", "Y Q=", "YQ==\n", "=YQ=", "YQ==YQ==", "Y*=="})
        CHECK(from_base64(text) == std::nullopt);
}

TEST_CASE("the encoding that an envelope's signature is over") {
    // The example of DSSE's protocol.md.
    CHECK(pre_authentication_encoding("http://example.com/HelloWorld", "hello world") ==
          "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
}

TEST_CASE("bundles of both kinds and of both kinds of keys are believed") {
    for (const bool ed25519 : {true, false}) {
        const Key key(ed25519), other(ed25519);
        for (const Json& bundle : {envelope_bundle(key, statement()), message_bundle(key)}) {
            const Verdict good = judge(bundle, key);
            INFO(good.why);
            CHECK(good.signer == "key " + SigningKey(key.file).id().text());
            const Verdict stranger = judge(bundle, other);
            CHECK_FALSE(stranger.signer);
            CHECK(stranger.why ==
                  "key " + SigningKey(key.file).id().text() + ": it is not among the trusted keys");
        }
    }
}

TEST_CASE("no changed byte of a bundle is believed") {
    const Key key(false);
    for (const Json& whole : {envelope_bundle(key, statement()), message_bundle(key)}) {
        const std::string text = to_text(whole);
        const Bundle original = parse_bundle(text);
        size_t refused = 0;
        for (size_t i = 0; i < text.size(); ++i)
            for (const int flip : {1, 2, 0x20, 0x80}) {
                std::string changed = text;
                changed[i] = static_cast<char>(changed[i] ^ flip);
                const Verdict verdict =
                    judge_bundle(changed, sha256(kManifest), kManifest, key.trusted);
                if (!verdict.signer) {
                    CHECK_FALSE(verdict.why.empty());
                    ++refused;
                    continue;
                }
                // What may change is what says nothing: the hint, and names that nobody reads.
                const Bundle read = parse_bundle(changed);
                CHECK(read.payload == original.payload);
                CHECK(read.payload_type == original.payload_type);
                CHECK(read.message == original.message);
            }
        CHECK(refused > text.size() * 3);
        for (size_t i = 0; i < text.size(); ++i)
            CHECK_FALSE(
                judge_bundle(text.substr(0, i), sha256(kManifest), kManifest, key.trusted).signer);
    }
}

TEST_CASE("no changed byte of what was signed is believed") {
    const Key key(true);
    const Json whole = envelope_bundle(key, statement());
    const auto changed_bytes = [&](const Json::json_pointer& at) {
        const std::string bytes = *from_base64(whole[at].get<std::string>());
        for (size_t i = 0; i < bytes.size(); ++i) {
            std::string changed = bytes;
            changed[i] = static_cast<char>(changed[i] ^ 4);
            Json bundle = whole;
            bundle[at] = to_base64(changed);
            CHECK_FALSE(judge(bundle, key).signer);
        }
    };
    changed_bytes("/dsseEnvelope/payload"_json_pointer);
    changed_bytes("/dsseEnvelope/signatures/0/sig"_json_pointer);
    std::string manifest = kManifest;
    for (char& byte : manifest) {
        byte = static_cast<char>(byte ^ 1);
        CHECK_FALSE(
            judge_bundle(to_text(message_bundle(key)), sha256(kManifest), manifest, key.trusted)
                .signer);
        byte = static_cast<char>(byte ^ 1);
    }
}

TEST_CASE("what is signed must be this image, as a signature") {
    const Key key(true);
    const auto why = [&](const Json& bundle) {
        const Verdict verdict = judge(bundle, key);
        CHECK_FALSE(verdict.signer);
        return verdict.why;
    };
    const std::string elsewhere = sha256("another").hex();
    CHECK_THAT(
        why(envelope_bundle(key, statement("https://sigstore.dev/cosign/sign/v1", elsewhere))),
        ContainsSubstring("a signature of another image"));
    CHECK_THAT(why(envelope_bundle(key, statement("https://slsa.dev/provenance/v1"))),
               ContainsSubstring("attests") && ContainsSubstring("no signature of the image"));
    CHECK_THAT(why(envelope_bundle(key, statement(), "text/plain")),
               ContainsSubstring("text/plain"));
    CHECK_THAT(why(envelope_bundle(key, "no JSON")),
               ContainsSubstring("no statement about an image"));
    CHECK_THAT(
        why(envelope_bundle(key, R"({"_type":"https://in-toto.io/Statement/v1","subject":7})")),
        ContainsSubstring("another image"));
    const Verdict moved =
        judge_bundle(to_text(message_bundle(key)), sha256("another"), "another", key.trusted);
    CHECK_FALSE(moved.signer);
    CHECK_THAT(moved.why, ContainsSubstring("another image"));
}

TEST_CASE("bundles that cannot be understood are passed over with the reason") {
    const Key key(true);
    const Json whole = envelope_bundle(key, statement());
    const auto with = [&](const char* at, const Json& value) {
        Json bundle = whole;
        bundle[Json::json_pointer(at)] = value;
        return judge(bundle, key).why;
    };
    CHECK_THAT(with("/mediaType", "application/vnd.dev.sigstore.bundle.v9+json"),
               ContainsSubstring("v9"));
    CHECK_THAT(with("/verificationMaterial", 3), ContainsSubstring("verificationMaterial"));
    CHECK_THAT(with("/verificationMaterial", Json::object()),
               ContainsSubstring("exactly one of a key"));
    CHECK_THAT(with("/verificationMaterial/certificate", Json{{"rawBytes", "AAAA"}}),
               ContainsSubstring("its certificate is none"));
    CHECK_THAT(with("/messageSignature", Json::object()),
               ContainsSubstring("exactly one of an envelope"));
    CHECK_THAT(with("/dsseEnvelope/signatures", Json::array()), ContainsSubstring("signatures"));
    CHECK_THAT(with("/dsseEnvelope/signatures", Json(9, Json::object())),
               ContainsSubstring("signatures"));
    CHECK_THAT(with("/dsseEnvelope/payload", "not base64!"), ContainsSubstring("no base64"));
    CHECK_THAT(with("/dsseEnvelope/payload", 1), ContainsSubstring("no base64"));
    CHECK_THAT(judge_bundle("[]", sha256("x"), "x", key.trusted).why,
               ContainsSubstring("no JSON object"));
    CHECK_THAT(judge_bundle(std::string(5 << 20, ' '), sha256("x"), "x", key.trusted).why,
               ContainsSubstring("more than"));
    CHECK_THAT(judge_bundle(std::string(1 << 20, '['), sha256("x"), "x", key.trusted).why,
               ContainsSubstring("no JSON object"));
}

TEST_CASE("a manifest of signatures keeps what others put there") {
    const Key key(true);
    const std::string text = signed_text_of(sha256(kManifest), "lab/image");
    CHECK(signed_text_problem(text, sha256(kManifest)).empty());
    CHECK_THAT(signed_text_problem(text, sha256("another")), ContainsSubstring("another image"));
    CHECK_THAT(signed_text_problem("{", sha256(kManifest)), ContainsSubstring("no statement"));
    Descriptor payload;
    payload.media_type = kSignedTextType;
    payload.digest = sha256(text);
    payload.size_bytes = text.size();
    const Json mine = Json::array({signature_layer(payload, {{}, "mine", {}})});
    Json theirs = signature_layer(payload, {{}, "theirs", {}});
    theirs["annotations"]["dev.sigstore.cosign/bundle"] = "kept";
    const std::string old = to_text({{"schemaVersion", 2},
                                     {"annotations", Json{{"note", "kept"}}},
                                     {"config", Json::object()},
                                     {"layers", Json::array({theirs})}});
    const Json merged = Json::parse(add_signature_layers(old, mine, "test").manifest);
    REQUIRE(merged["layers"].size() == 2);
    CHECK(merged["layers"][0] == theirs);
    CHECK(merged["annotations"]["note"] == "kept");
    const std::string again = add_signature_layers(to_text(merged), mine, "test").manifest;
    CHECK(Json::parse(again)["layers"].size() == 2);
    const auto read = read_signature_manifest(again, "test");
    REQUIRE(read.size() == 2);
    CHECK(read[0].signature.bytes == "theirs");
    for (const char* bad : {"[]", "{}", R"({"layers":5})", R"({"layers":[5]})"})
        CHECK_THROWS_AS(read_signature_manifest(bad, "test"), Error);
}
