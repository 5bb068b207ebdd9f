// The messages between the recording process of `proftrace top` and the viewer (the process that
// shows the screen). They go over a pair of sockets that keep messages apart. The first byte of a
// message tells its kind.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace proftrace {

// Messages to the viewer.
inline constexpr char kTopBegin = 'B';    // the probes are live
inline constexpr char kTopCapture = 'C';  // the capture that was asked for is in the file
inline constexpr char kTopMessage = 'M';  // a message line to be shown
inline constexpr char kTopText = 'T';     // a piece of a dump's text
inline constexpr char kTopTextEnd = 'U';  // the last piece of a dump's text
inline constexpr char kTopEnd = 'E';  // the recording is over: its last capture may be asked for
// The text of kTopEnd where the user has asked for the end, and waits for it.
inline constexpr char kTopAtOnce[] = "at once";

// Messages from the viewer.
inline constexpr char kTopAskCapture = 'c';  // the last seconds, to be shown
inline constexpr char kTopAskKeep = 'k';     // the last seconds, as a result directory
inline constexpr char kTopAskDump = 'd';     // stacks; the decimal PID of a process follows
inline constexpr char kTopAskEnd = 'q';

// The most bytes of a message.
inline constexpr size_t kMostTopMessageBytes = 16384;

// Sends a message. Returns false where the other side is gone.
bool SendTopMessage(int socket, char kind, std::string_view text = "");
// Receives a message, which must have arrived already. Returns an empty text where the other side
// is gone.
std::string ReceiveTopMessage(int socket);

}  // namespace proftrace
