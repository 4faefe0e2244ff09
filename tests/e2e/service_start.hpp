// SPDX-License-Identifier: Apache-2.0
// flightd as a service, beside a broker: it has the service manager's notification socket, and its listening control
// socket.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>

#include "libcore/base/unix_socket.hpp"
#include "tests/e2e/own_broker.hpp"

namespace flight {

class ServiceStart : public OwnBroker {
 protected:
  void SetUp() override {
    OwnBroker::SetUp();
    manager_.emplace(folder_ / "notify");
    ::unsetenv("NOTIFY_SOCKET");  // the fixture's broker is started by hand
    ASSERT_EQ(chmod((folder_ / "notify").c_str(), 0666), 0);
    auto listening = listen_on(control(), {.type = SOCK_STREAM, .backlog = 8, .mode = 0666, .listener = "flightd"});
    ASSERT_TRUE(listening) << listening.error().what;
    listening_ = std::move(*listening);
  }
  void TearDown() override {
    if (HasFailure()) fmt::print(stderr, "---- flightd's log\n{}----\n", log());
    OwnBroker::TearDown();
  }
  [[nodiscard]] std::string notify_socket() const { return "NOTIFY_SOCKET=" + (folder_ / "notify"); }
  [[nodiscard]] std::string control() const { return folder_ / "run/io.flightd.Recorder"; }
  void write_config(const std::string& text) const {
    write_text(folder_ / "flightd.json", text);
    ASSERT_EQ(chmod((folder_ / "flightd.json").c_str(), 0644), 0);
  }
  void start_service(const Arguments& more = {}) {
    Arguments command = options_.prefix;
    for (const std::string& word :
         {options_.program.empty() ? required_env("FLIGHTD") : options_.program, std::string("--config"),
          folder_ / "flightd.json", std::string("--state-dir"), folder_ / "state", std::string("--runtime-dir"),
          folder_ / "run", std::string("--broker"), socket_})
      command.push_back(word);
    command.insert(command.end(), more.begin(), more.end());
    ChildOptions options;
    options.env = {notify_socket(), "WATCHDOG_USEC=4000000"};
    options.prepare = [this] { manager_->hand_over({listening_.get()}); };
    service_.emplace(Child::start(command, options));
  }
  [[nodiscard]] Outcome ctl(Arguments arguments) const {
    arguments.insert(arguments.begin(), {required_env("FLIGHTCTL"), "--socket", control()});
    return run(arguments, 30s);
  }
  [[nodiscard]] Json status() const { return Json::parse(ctl({"--json", "status"}).out, nullptr, false); }
  [[nodiscard]] bool starts_to_record() const {
    return wait_until([this] { return records(status()); }, 40s);
  }
  [[nodiscard]] std::string log() const { return service_ ? service_->err() : std::string(); }
  // READY=1, the reason in the status line and in the status, an error for everything else; it goes on.
  void expect_unstarted(const std::string& why) {
    EXPECT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (")) << log();
    EXPECT_TRUE(manager_->wait_for(why)) << log();
    const Json now = status();
    EXPECT_EQ(now["recording"], "off") << now;
    EXPECT_THAT(now["messages"].dump(), testing::HasSubstr(why));
    EXPECT_EQ(now["self"]["flightd"]["pid"], service_->pid());
    for (const Arguments& call : {Arguments{"snapshot"}, {"list"}, {"triggers"}, {"pause"}, {"config"}}) {
      const Outcome refused = ctl(call);
      EXPECT_EQ(refused.exit_status, 1) << refused.text();
      EXPECT_THAT(refused.err, testing::HasSubstr(why));
    }
    EXPECT_TRUE(service_->running());
  }
  void end() {
    manager_->receive_all();  // or its queue may be full
    service_->signal(SIGTERM);
    EXPECT_EQ(service_->wait(30s), 0) << log();
    EXPECT_TRUE(manager_->wait_for("STOPPING=1"));
  }

  std::optional<test::ServiceManager> manager_;
  UniqueFd listening_;
  std::optional<Child> service_;
};

}  // namespace flight
