// Names as bytes while libarchive runs.
#pragma once

#include <locale.h>

namespace slipway::image {

/// The C locale for this thread while libarchive runs. In it names are bytes and stay as they are
/// (with ARCHIVE_WARN for what is not ASCII); in a UTF-8 locale libarchive 3.6 normalizes names.
class ByteLocale {
 public:
    ByteLocale() : before_(uselocale(c_locale())) {}
    ~ByteLocale() { uselocale(before_); }
    ByteLocale(const ByteLocale&) = delete;
    ByteLocale& operator=(const ByteLocale&) = delete;

 private:
    static locale_t c_locale() {
        static locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
        return locale;
    }
    locale_t before_;
};

}  // namespace slipway::image
