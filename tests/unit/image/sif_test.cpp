// Shell files of Apptainer images: what of them is taken, and what is left out.
// Must not: connect to anything.
#include "../../../src/image/sif/sif.hpp"

#include "catch.hpp"

using namespace slipway::image;

TEST_CASE("plain exports of Apptainer's environment files") {
    size_t left_out = 0;
    const auto found = plain_exports(
        "#!/bin/sh\n# a comment\n\nexport A=1\nexport B=\"two words\"\nexport C='a $b'\n"
        "export D=\"${D:-\"from the image\"}\"\nexport E=\"a \\\"quoted\\\" \\$word \\n\"\n   "
        "export F=  \n",
        left_out);
    CHECK(found == std::vector<std::string>{"A=1", "B=two words", "C=a $b", "D=from the image",
                                            "E=a \"quoted\" $word \\n", "F="});
    CHECK(left_out == 0);
}

TEST_CASE("what a shell would have to work out is left out") {
    for (const char* line :
         {"export A=$B", "export A=`date`", "export A=\"$(date)\"", "export A=\"x${B}\"",
          "export A=1 B=2", "export A=~/x", "export A=\"1\" B=\"2\"", "export A='1'\"2\"",
          "export 1A=x", "export A", "A=1", "source /x", "export A=\"${B:-\"x\"}\"",
          "export A=\"unfinished\\\"", "export A=1; rm -r /", "if true; then export A=1; fi"}) {
        INFO(line);
        size_t left_out = 0;
        CHECK(plain_exports(line, left_out).empty());
        CHECK(left_out == 1);
    }
}

TEST_CASE("exports within a condition are left out, those after it are not") {
    size_t left_out = 0;
    const auto found = plain_exports(
        "if [ -n \"$X\" ]; then\n  export A=1\nelse\n  export A=2\nfi\nexport B=3\nf() {\n  export "
        "C=4\n}\n"
        "for i in 1 2; do\n  case $i in\n    1) export D=5 ;;\n  esac\ndone\nexport E=6\nif true; "
        "then true; fi\nexport F=7\n",
        left_out);
    CHECK(found == std::vector<std::string>{"B=3", "E=6", "F=7"});
    CHECK(left_out == 14);
}
