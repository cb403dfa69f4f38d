// Names as they were written while libarchive runs.
#pragma once

#include <locale.h>

namespace slipway::image {

/// The C locale for this thread while libarchive runs. In it names are bytes and stay as they are
/// (with ARCHIVE_WARN for what is not ASCII); in a UTF-8 locale libarchive 3.6 normalizes names.
class ByteLocale {
 public:
    ByteLocale() : ByteLocale(c_locale()) {}
    ~ByteLocale() { uselocale(before_); }
    ByteLocale(const ByteLocale&) = delete;
    ByteLocale& operator=(const ByteLocale&) = delete;

 protected:
    explicit ByteLocale(locale_t locale) : before_(uselocale(locale)) {}
    static locale_t c_locale() {
        static locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
        return locale;
    }

 private:
    locale_t before_;
};

/// For zip, whose names may be declared to be UTF-8: in the C locale libarchive has none at all for
/// those that are not ASCII. It composes accents (NFC). Where the system has no C.UTF-8, as above.
class ZipLocale : public ByteLocale {
 public:
    ZipLocale() : ByteLocale(utf8_locale()) {}

 private:
    static locale_t utf8_locale() {
        static locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
        return locale != nullptr ? locale : c_locale();
    }
};

}  // namespace slipway::image
