// SPDX-License-Identifier: Apache-2.0
#include "daemon/log/log.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "libcore/base/line_writer.hpp"
#include "libcore/base/text.hpp"

namespace flight::log {

namespace {

// As in sd-daemon(3).
std::string_view priority_of(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return "<3>";
  return level == spdlog::level::warn ? "<4>" : "<6>";
}

class LineSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LineSink(LineWriter& writer) : writer_(writer) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::string_view rest(text.data(), text.size());
    if (!to_journal_) return writer_.write(std::string(rest));
    std::string lines;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      const std::size_t line = end == std::string_view::npos ? rest.size() : end + 1;
      lines += priority_of(message.level);
      lines += rest.substr(0, line);
      rest.remove_prefix(line);
    }
    writer_.write(std::move(lines));
  }
  void flush_() override {}

 private:
  LineWriter& writer_;
  const bool to_journal_ = stderr_is_journal();
};

// It is not destroyed: threads may log until the process ends.
LineWriter& writer() {
  static auto* const out = new LineWriter(STDERR_FILENO);
  return *out;
}

}  // namespace

bool stderr_is_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &status) == 0 &&
         stream == fmt::format("{}:{}", std::uint64_t{status.st_dev}, std::uint64_t{status.st_ino});
}

void start(const std::string& name, const std::string& pattern) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(name, std::make_shared<LineSink>(writer())));
  spdlog::set_pattern(pattern);
}

Result<void> use_thread() { return writer().start(); }
void flush() { writer().flush(); }
std::uint64_t dropped() { return writer().dropped(); }

void write(Level level, std::string_view text) {
  const auto severity = level == Level::error  ? spdlog::level::err
                        : level == Level::warn ? spdlog::level::warn
                                               : spdlog::level::info;
  const std::string safe = printable(text);
  spdlog::log(severity, spdlog::string_view_t(safe.data(), safe.size()));
}

void vwrite(Level level, fmt::string_view format, fmt::format_args args) { write(level, fmt::vformat(format, args)); }

}  // namespace flight::log
