// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/gathered.hpp"

#include <cerrno>
#include <cstring>

namespace flight {
namespace {

constexpr std::uint32_t kBegins = 0, kFound = 1, kComplete = 2;

Failure malformed() {
  return fail(std::errc::bad_message, "the process that reads the configuration sent a malformed message");
}

}  // namespace

struct Gathered::Message {
  std::uint32_t kind = kBegins;
  Look look = Look::text;
  std::uint32_t path_bytes = 0, text_bytes = 0;  // that follow
  std::int32_t error_number = 0;                 // of kFound; then the text is the error's
  std::uint32_t flag = 0;                        // of kFound: it failed; of kComplete: may_hang

  [[nodiscard]] static std::string bytes(Message message, std::string_view path, std::string_view text) {
    message.path_bytes = static_cast<std::uint32_t>(path.size());
    message.text_bytes = static_cast<std::uint32_t>(text.size());
    std::string out(sizeof message, '\0');
    std::memcpy(out.data(), &message, sizeof message);
    return out.append(path).append(text);
  }
};

std::string Gathered::begins(Look look, const std::string& path, const std::string& as) {
  return Message::bytes({.kind = kBegins, .look = look}, path, as);
}

std::string Gathered::found(Look look, const std::string& path, const Result<std::string>& result) {
  if (result) return Message::bytes({.kind = kFound, .look = look}, path, *result);
  const Error& error = result.error();
  return Message::bytes({.kind = kFound, .look = look, .error_number = error.errno_value(), .flag = 1}, path,
                        error.what);
}

std::string Gathered::complete(bool may_hang) {
  return Message::bytes({.kind = kComplete, .flag = may_hang ? 1U : 0U}, {}, {});
}

Result<void> Gathered::add(std::string_view bytes) {
  bytes_ += bytes.size();
  if (bytes_ > kMostBytes)
    return fail(std::errc::file_too_large, "the files of the configuration have more than {} MiB", kMostBytes >> 20U);
  unparsed_.append(bytes);
  std::string_view rest = unparsed_;
  while (rest.size() >= sizeof(Message)) {
    Message message;
    std::memcpy(&message, rest.data(), sizeof message);
    if (complete_ || message.path_bytes > kMostBytes || message.text_bytes > kMostBytes) return malformed();
    if (rest.size() - sizeof message < std::size_t{message.path_bytes} + message.text_bytes) break;
    rest.remove_prefix(sizeof message);
    if (!take(message, rest.substr(0, message.path_bytes), rest.substr(message.path_bytes, message.text_bytes)))
      return malformed();
    rest.remove_prefix(message.path_bytes + message.text_bytes);
  }
  unparsed_.erase(0, unparsed_.size() - rest.size());
  return {};
}

bool Gathered::take(const Message& message, std::string_view path, std::string_view text) {
  switch (message.kind) {
    case kBegins:
      at_ = path;
      as_ = text;
      return true;
    case kFound: {
      at_.clear();
      as_.clear();
      Result<std::string> result(text);
      if (message.flag != 0)
        result = propagate({.code = {message.error_number, std::generic_category()}, .what = std::string(text)});
      return results_.try_emplace({message.look, std::string(path)}, std::move(result)).second;
    }
    case kComplete:
      complete_ = true;
      may_hang_ = message.flag != 0;
      return true;
    default:
      return false;
  }
}

std::optional<Result<std::string>> Gathered::find(Look look, const std::string& path) const {
  const auto found = results_.find({look, path});
  if (found == results_.end()) return std::nullopt;
  return found->second;
}

LookUp Gathered::look_up() const {
  return [this](Look look, const std::string& path) -> Result<std::string> {
    if (auto result = find(look, path)) return std::move(*result);
    return fail(std::errc::io_error, "read {}: the process that reads the configuration did not", path);
  };
}

}  // namespace flight
