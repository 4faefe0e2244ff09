// SPDX-License-Identifier: Apache-2.0
// ReadSnapshot: a reply, a file's bytes, the end.
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/daemon/control/raw_client.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;

class ReadTest : public ControlServerTest {
 protected:
  // Larger than the sockets' buffers.
  ReadTest() {
    for (int number = 0; bytes_.size() < (3U << 20U); ++number) bytes_ += std::to_string(number) + '\0';
    bench.backend.file_to_read = bench.folder() + "/data";
    std::ofstream(bench.backend.file_to_read, std::ios::binary) << bytes_;
  }
  static std::string read_call(std::string_view id = "1") {
    return call_text("io.flightd.Recorder.ReadSnapshot", fmt::format(R"({{"id":"{}"}})", id), R"(,"upgrade":true)");
  }
  std::string bytes_;
};

TEST_F(ReadTest, SizeThenBytesThenTheEnd) {
  run();
  RawClient client(bench.socket());
  client.send(kGetInfo + read_call());
  ASSERT_TRUE(client.receive());
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, "");
  EXPECT_FALSE(reply->continues);
  const auto read = parse_read_reply(reply->parameters);
  ASSERT_TRUE(read) << reply->parameters;
  EXPECT_EQ(read->size_bytes, bytes_.size());
  EXPECT_EQ(read->name, bench.backend.name_to_read);
  EXPECT_TRUE(client.receive_raw() == bytes_);
  EXPECT_TRUE(client.closed());
  expect_connections(0);
}

TEST_F(ReadTest, AnEmptyFileIsAReplyAndTheEnd) {
  std::ofstream(bench.backend.file_to_read, std::ios::binary).close();
  run();
  RawClient client(bench.socket());
  client.send(read_call());
  EXPECT_TRUE(client.receive());
  EXPECT_EQ(client.receive_raw(), "");
  EXPECT_TRUE(client.closed());
}

TEST_F(ReadTest, AnErrorLeavesTheConnectionAsItWas) {
  run();
  RawClient client(bench.socket());
  client.send(read_call("99") + kGetInfo);
  const auto refused = client.receive();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error, "io.flightd.Recorder.NoSuchSnapshot");
  const auto info = client.receive();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->error, "");
}

TEST_F(ReadTest, AFileThatEndsEarlyEndsTheConnection) {
  bench.backend.bytes_too_many = 1000;
  run();
  RawClient client(bench.socket());
  client.send(read_call());
  ASSERT_TRUE(client.receive());
  EXPECT_TRUE(client.receive_raw() == bytes_);
  EXPECT_TRUE(client.closed());
}

TEST_F(ReadTest, ASlowReaderIsGivenUpOnlyWhenNothingMoves) {
  ControlLimits limits;
  limits.session.slow_reader = 2s;
  run(limits);
  RawClient slow(bench.socket()), stuck(bench.socket());
  slow.send(read_call());
  stuck.send(read_call());
  ASSERT_TRUE(slow.receive());
  ASSERT_TRUE(stuck.receive());
  std::string got;
  // Three times the limit in all. What is left is more than the socket's buffer holds: flightd is not done.
  for (int part = 0; part < 24; ++part) {
    got += slow.receive_raw(bytes_.size() / 32);
    std::this_thread::sleep_for(250ms);
  }
  expect_connections(1);  // the client that read nothing was disconnected
  got += slow.receive_raw();
  EXPECT_TRUE(got == bytes_) << got.size() << " of " << bytes_.size();
  EXPECT_LT(stuck.receive_raw().size(), bytes_.size());
  expect_connections(0);
}

TEST_F(ReadTest, ADisconnectInTheMiddleFreesEverything) {
  run();
  for (int number = 0; number < 50; ++number) {
    RawClient client(bench.socket());
    client.send(read_call());
    if (number % 2 == 0) client.receive_raw(100'000);
  }
  expect_connections(0);
  expect_alive();
}

// A pipe replaces the file: the read waits, as on a dead disk, and the event loop must not.
TEST_F(ReadTest, AHangingDiskDelaysNoOtherClient) {
  const UniqueFd end = bench.hang_reads();
  run();
  RawClient client(bench.socket());
  client.send(read_call());
  ASSERT_TRUE(client.receive());
  expect_alive();
  EXPECT_EQ(client.receive_raw(4, 100ms), "");
  ASSERT_EQ(::write(end.get(), "late", 4), 4);
  EXPECT_EQ(client.receive_raw(), "late");
}

TEST_F(ReadTest, TheServerMayGoAwayInTheMiddle) {
  run();
  RawClient client(bench.socket());
  client.send(read_call());
  ASSERT_TRUE(client.receive());
  bench.destroy_server();
  EXPECT_LT(client.receive_raw().size(), bytes_.size());
  EXPECT_TRUE(client.closed());
}

TEST_F(ReadTest, ManyReadAtOnce) {
  run();
  std::vector<std::thread> readers;
  std::atomic<int> whole = 0;
  for (int number = 0; number < 40; ++number)
    readers.emplace_back([&] {
      RawClient client(bench.socket());
      client.send(read_call());
      if (client.receive(20s) && client.receive_raw(SIZE_MAX, 20s) == bytes_) ++whole;
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(whole, 40);
}

}  // namespace
}  // namespace flight::daemon
