// Small data sets on disk, made by rule: four kinds of bars and blobs that a network can tell.
#pragma once

#include <string>

#include "random.hpp"
#include "slipway/base/file.hpp"

/// A directory with the four files, plain.
class DigitFiles {
 public:
    DigitFiles(int train, int test, int extent) : directory_(slipway::temporary_directory()) {
        write_images("train-images-idx3-ubyte", train, extent);
        write_labels("train-labels-idx1-ubyte", train);
        write_images("t10k-images-idx3-ubyte", test, extent);
        write_labels("t10k-labels-idx1-ubyte", test);
    }
    const std::string& path() const { return directory_.path(); }

    void write_images(const std::string& name, int count, int extent) {
        std::string bytes("\0\0\x08\x03", 4);
        for (int value : {count, extent, extent}) append(bytes, value);
        slipway::train::Random random(static_cast<uint64_t>(count), 1);
        for (int image = 0; image < count; ++image)
            for (int y = 0; y < extent; ++y)
                for (int x = 0; x < extent; ++x) {
                    const bool ink = image % 4 == 0   ? y < extent / 2
                                     : image % 4 == 1 ? x < extent / 2
                                     : image % 4 == 2 ? y == x
                                                      : (x + y) % 2 == 0;
                    bytes += static_cast<char>((ink ? 180 : 10) + random.below(60));
                }
        slipway::write_file_atomic(path() + "/" + name, bytes);
    }
    void write_labels(const std::string& name, int count) {
        std::string bytes("\0\0\x08\x01", 4);
        append(bytes, count);
        for (int image = 0; image < count; ++image) bytes += static_cast<char>(image % 4);
        slipway::write_file_atomic(path() + "/" + name, bytes);
    }

 private:
    static void append(std::string& bytes, int value) {
        for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    }
    slipway::TempDir directory_;
};
