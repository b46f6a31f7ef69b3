#include <algorithm>
#include <cstdint>
#include <vector>

#if TRIREME_WITH_ZLIB
#include <zlib.h>
#endif
#if TRIREME_WITH_ZSTD
#include <zstd.h>
#endif
#if TRIREME_WITH_BZIP2
#include <bzlib.h>
#endif
#if TRIREME_WITH_LZMA
#include <lzma.h>
#endif

#include "base/errors.h"
#include "train/data/byte_source.h"

namespace trireme::train {
namespace {

// What a form's library sees: packed bytes that it takes from, and room that it fills.
struct Window {
  const char* in;
  std::size_t in_bytes;
  char* out;
  std::size_t out_bytes;
};

class Unpacker : public ByteSource {
 public:
  Unpacker(Compression form, std::string begin, ByteSource& packed, std::filesystem::path file)
      : form_(form), file_(std::move(file)), packed_(packed), block_(begin.begin(), begin.end()), size_(begin.size()) {
    block_.resize(std::max<std::size_t>(block_.size(), std::size_t{1} << 16));
  }

  std::size_t read(char* out, std::size_t n) final {
    for (;;) {
      if (at_ == size_ && !ended_) {
        at_ = 0;
        size_ = packed_.read(block_.data(), block_.size());
        ended_ = size_ == 0;
      }
      // A stream may be followed by another; the file is whole when it ends between two.
      if (ended_ && between_) return 0;
      Window window{block_.data() + at_, size_ - at_, out, n};
      const std::size_t had = window.in_bytes;
      between_ = step(window);
      at_ += had - window.in_bytes;
      const std::size_t made = n - window.out_bytes;
      unpacked_ += static_cast<std::int64_t>(made);
      if (made > 0) return made;
      if (ended_ && !between_) fail("ends in the middle of its data: it is not complete");
    }
  }

 protected:
  // Unpacks some; true where a stream has just ended, and all before it was whole.
  virtual bool step(Window& window) = 0;

  [[noreturn]] void fail(const std::string& why) const {
    throw ConfigError({.file = file_.string(),
                       .allowed = fmt::format("is compressed by {} and {} (after {} bytes of text)", name_of(form_),
                                              why, unpacked_)});
  }
  [[noreturn]] void damaged() const { fail("its data are damaged"); }
  bool at_end() const { return ended_; }

 private:
  Compression form_;
  std::filesystem::path file_;
  ByteSource& packed_;
  std::vector<char> block_;
  std::size_t size_ = 0, at_ = 0;
  std::int64_t unpacked_ = 0;
  bool ended_ = false, between_ = false;
};

#if TRIREME_WITH_ZLIB
class Gzip final : public Unpacker {
 public:
  Gzip(std::string begin, ByteSource& packed, std::filesystem::path file)
      : Unpacker(Compression::gzip, std::move(begin), packed, std::move(file)) {
    TRIREME_CHECK(inflateInit2(&stream_, 15 + 16) == Z_OK, "zlib");
  }
  ~Gzip() override { inflateEnd(&stream_); }

 protected:
  bool step(Window& w) override {
    if (finished_) {
      // Zero bytes behind the last stream are filling.
      while (w.in_bytes > 0 && *w.in == '\0') ++w.in, --w.in_bytes;
      if (w.in_bytes == 0) return true;
      inflateReset(&stream_);
      finished_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(w.in));
    stream_.avail_in = static_cast<uInt>(w.in_bytes);
    stream_.next_out = reinterpret_cast<Bytef*>(w.out);
    stream_.avail_out = static_cast<uInt>(std::min(w.out_bytes, std::size_t{1} << 30));
    const std::size_t room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    w.in_bytes = stream_.avail_in;
    w.out_bytes -= room - stream_.avail_out;
    if (result == Z_STREAM_END) return finished_ = true;
    if (result != Z_OK && result != Z_BUF_ERROR) damaged();
    return false;
  }

 private:
  z_stream stream_{};
  bool finished_ = false;
};
#endif

#if TRIREME_WITH_ZSTD
class Zstd final : public Unpacker {
 public:
  Zstd(std::string begin, ByteSource& packed, std::filesystem::path file)
      : Unpacker(Compression::zstd, std::move(begin), packed, std::move(file)), context_(ZSTD_createDCtx()) {
    // What `zstd --long=31` writes, too.
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, sizeof(std::size_t) == 8 ? 31 : 30);
  }
  ~Zstd() override { ZSTD_freeDCtx(context_); }

 protected:
  bool step(Window& w) override {
    ZSTD_inBuffer in{w.in, w.in_bytes, 0};
    ZSTD_outBuffer out{w.out, w.out_bytes, 0};
    const std::size_t left = ZSTD_decompressStream(context_, &out, &in);
    if (ZSTD_isError(left)) damaged();
    w.in_bytes -= in.pos;
    w.out_bytes -= out.pos;
    return left == 0;
  }

 private:
  ZSTD_DCtx* context_;
};
#endif

#if TRIREME_WITH_BZIP2
class Bzip2 final : public Unpacker {
 public:
  Bzip2(std::string begin, ByteSource& packed, std::filesystem::path file)
      : Unpacker(Compression::bzip2, std::move(begin), packed, std::move(file)) {
    start();
  }
  ~Bzip2() override { BZ2_bzDecompressEnd(&stream_); }

 protected:
  bool step(Window& w) override {
    if (finished_) {
      if (w.in_bytes == 0) return true;
      BZ2_bzDecompressEnd(&stream_);
      start();
    }
    stream_.next_in = const_cast<char*>(w.in);
    stream_.avail_in = static_cast<unsigned>(w.in_bytes);
    stream_.next_out = w.out;
    stream_.avail_out = static_cast<unsigned>(std::min(w.out_bytes, std::size_t{1} << 30));
    const std::size_t room = stream_.avail_out;
    const int result = BZ2_bzDecompress(&stream_);
    w.in_bytes = stream_.avail_in;
    w.out_bytes -= room - stream_.avail_out;
    if (result == BZ_STREAM_END) return finished_ = true;
    if (result != BZ_OK) damaged();
    return false;
  }

 private:
  void start() {
    stream_ = {};
    TRIREME_CHECK(BZ2_bzDecompressInit(&stream_, 0, 0) == BZ_OK, "bzip2");
    finished_ = false;
  }

  bz_stream stream_{};
  bool finished_ = false;
};
#endif

#if TRIREME_WITH_LZMA
class Xz final : public Unpacker {
 public:
  Xz(std::string begin, ByteSource& packed, std::filesystem::path file)
      : Unpacker(Compression::xz, std::move(begin), packed, std::move(file)) {
    TRIREME_CHECK(lzma_stream_decoder(&stream_, UINT64_MAX, LZMA_CONCATENATED) == LZMA_OK, "lzma");
  }
  ~Xz() override { lzma_end(&stream_); }

 protected:
  bool step(Window& w) override {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(w.in);
    stream_.avail_in = w.in_bytes;
    stream_.next_out = reinterpret_cast<std::uint8_t*>(w.out);
    stream_.avail_out = w.out_bytes;
    const lzma_ret result = lzma_code(&stream_, at_end() ? LZMA_FINISH : LZMA_RUN);
    w.in_bytes = stream_.avail_in;
    w.out_bytes = stream_.avail_out;
    if (result == LZMA_STREAM_END) return true;
    if (result != LZMA_OK && result != LZMA_BUF_ERROR) damaged();
    return false;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};
#endif

}  // namespace

const char* name_of(Compression form) {
  switch (form) {
    case Compression::gzip:
      return "gzip";
    case Compression::zstd:
      return "zstd";
    case Compression::bzip2:
      return "bzip2";
    case Compression::xz:
      return "xz";
    case Compression::none:
      break;
  }
  return "nothing";
}

std::unique_ptr<ByteSource> decompressed(Compression form, std::string begin, ByteSource& packed,
                                         std::filesystem::path file) {
  switch (form) {
#if TRIREME_WITH_ZLIB
    case Compression::gzip:
      return std::make_unique<Gzip>(std::move(begin), packed, std::move(file));
#endif
#if TRIREME_WITH_ZSTD
    case Compression::zstd:
      return std::make_unique<Zstd>(std::move(begin), packed, std::move(file));
#endif
#if TRIREME_WITH_BZIP2
    case Compression::bzip2:
      return std::make_unique<Bzip2>(std::move(begin), packed, std::move(file));
#endif
#if TRIREME_WITH_LZMA
    case Compression::xz:
      return std::make_unique<Xz>(std::move(begin), packed, std::move(file));
#endif
    default:
      throw ConfigError({.file = file.string(),
                         .allowed = fmt::format("is compressed by {}, which this build can't unpack (its library was "
                                                "missing when trireme was built): unpack it first",
                                                name_of(form))});
  }
}

}  // namespace trireme::train
