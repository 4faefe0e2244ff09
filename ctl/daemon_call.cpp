// SPDX-License-Identifier: Apache-2.0
#include "ctl/daemon_call.hpp"

#include "ctl/connection.hpp"
#include "ctl/output.hpp"

namespace flight::ctl {

Answer<std::string> ask_whole(const Common& common, std::string_view method, std::string parameters,
                              const OnProgress& on_progress) {
  auto connection = Connection::open(common);
  if (!connection) return tl::unexpected(Refusal{std::string(kNotConnected), connection.error().what});
  const Call call{fmt::format("{}.{}", kInterface, method), std::move(parameters), static_cast<bool>(on_progress),
                  false, false};
  auto reply = connection->call(call, [&](const Reply& step) {
    if (!on_progress) return;
    if (const auto progress = parse_progress(step.parameters)) on_progress(*progress);
  });
  if (!reply) return tl::unexpected(Refusal{std::string(kNotConnected), reply.error().what});
  if (!reply->error.empty()) return tl::unexpected(Refusal{reply->error, error_message(*reply)});
  return std::move(reply->parameters);
}

Answer<std::string> ask(const Common& common, std::string_view method, std::string parameters, std::string_view key,
                        const OnProgress& on_progress) {
  auto reply = ask_whole(common, method, std::move(parameters), on_progress);
  if (!reply) return reply;
  if (key.empty()) return std::string("{}");
  std::string text = member(*reply, key);
  if (text.empty() || text == "null")
    return tl::unexpected(Refusal{std::string(kBadReply), fmt::format("flightd answered {} without '{}'; are flightd "
                                                                      "and flightctl of the same version?",
                                                                      method, key)});
  return text;
}

int complain(const Common& common, const Refusal& refusal) {
  return complain(common, refusal.name, refusal.message, kRefused);
}

int complain(const Common& common, const std::vector<Refusal>& refusals) {
  if (!common.json) {
    for (const Refusal& refusal : refusals) static_cast<void>(complain(common, refusal));
    return kRefused;
  }
  std::string message;
  for (const Refusal& refusal : refusals) message += (message.empty() ? "" : "; ") + refusal.message;
  return complain(common, refusals.front().name, message, kRefused);
}

std::string id_parameters(std::string_view id) { return fmt::format(R"({{"id":"{}"}})", id); }

}  // namespace flight::ctl
