// JSON readers name their subject.
// Must not: test the JSON library itself.
#include "slipway/base/json.hpp"

#include "catch.hpp"

using namespace slipway;

TEST_CASE("mistakes name the document and the member") {
    CHECK_THROWS_WITH(parse_json("{", "index.json"), ContainsSubstring("index.json"));
    const Json object = parse_json(R"({"a": 1, "b": ["x", "y"], "c": null, "d": [1]})", "t");
    CHECK_THROWS_WITH(json_string(object, "a", "t"), ContainsSubstring("\"a\""));
    CHECK(json_string(object, "c", "t", "f") == "f");
    CHECK(json_string(object, "none", "t") == "");
    CHECK(json_strings(object, "b", "t") == std::vector<std::string>{"x", "y"});
    CHECK_THROWS_AS(json_strings(object, "d", "t"), Error);
    CHECK_THROWS_AS(json_string(Json(3), "a", "t"), Error);
}

TEST_CASE("text never throws and keys are sorted") {
    CHECK(to_text(Json{{"b", 1}, {"a", 2}}) == R"({"a":2,"b":1})");
    CHECK_NOTHROW(to_text(Json("\xff")));
}

TEST_CASE("a document that nests too deep is refused") {
    const std::string deep(300000, '[');
    CHECK_THROWS_AS(slipway::parse_json(deep, "it"), slipway::Error);
    const std::string text = R"({"a": "[[[[", "b\"[": [[{}]]})";
    CHECK(slipway::parse_json(text, "it")["a"] == "[[[[");
    const std::string many(100, '['), ends(100, ']');
    CHECK(slipway::parse_json(many + ends, "it").is_array());
}

TEST_CASE("a member that is not wanted is only looked over") {
    static constexpr std::string_view kMember[] = {"m", "n"};
    const auto without = [](const std::string& text) {
        return to_text(parse_json_without(kMember, text, "it"));
    };
    for (const char* value :
         {"1", "\"}\"", "[1,[2,{\"a\":\"]\"}]]", "{\"m\":{\"x\":\"\\\"}\"}}", "null", " true "}) {
        CHECK(without(std::string("{\"a\":1,\"m\":") + value + "}") == R"({"a":1,"m":null})");
        CHECK(without(std::string("{\"m\" : ") + value + "\n,\"z\":{\"m\":2}}") ==
              R"({"m":null,"z":{"m":2}})");
    }
    CHECK(without(R"({"a":"m","b":["m",{"m":3}]})") == R"({"a":"m","b":["m",{"m":3}]})");
    CHECK(without(R"({"n":{"m":3},"a":[0],"m":[]})") == R"({"a":[0],"m":null,"n":null})");
    CHECK(without(R"({"a":{"m":3}})") == R"({"a":{"m":3}})");
    CHECK(without("[\"m\"]") == "[\"m\"]");
    // Mistakes are told where they are in the whole text.
    const std::string text = R"({"m":[1,2,3],"b":})";
    for (const std::string& broken :
         {text, std::string(R"({"m":[1,2)"), std::string("{\"m\":\"x"), std::string("{\"m\":")}) {
        std::string whole, ours;
        try {
            parse_json(broken, "it");
        } catch (const Error& error) {
            whole = error.render();
        }
        try {
            parse_json_without(kMember, broken, "it");
        } catch (const Error& error) {
            ours = error.render();
        }
        CHECK(ours == whole);
        CHECK_FALSE(ours.empty());
    }
}
