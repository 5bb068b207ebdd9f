#include "userspace/model/ioctl_names.h"

#include <asm/ioctls.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>

namespace proftrace {
namespace {

struct NamedRequest {
  uint32_t value;
  std::string_view name;
};

// Made from the kernel's headers: CMakeLists.txt. Behind them, those that take structures.
constexpr NamedRequest kRequests[] = {
#define REQUEST(constant) {static_cast<uint32_t>(constant), #constant},
#include "userspace/model/ioctl_names.inc"
    REQUEST(FICLONERANGE) REQUEST(FIDEDUPERANGE) REQUEST(FITRIM) REQUEST(FS_IOC_FSGETXATTR)
        REQUEST(FS_IOC_FSSETXATTR)
#undef REQUEST
};

// Others have the same numbers: SIOCINQ, TIOCINQ; TIOCOUTQ.
constexpr uint32_t kIntRequests[] = {FIONREAD,  FIONBIO,   FIOASYNC, SIOCOUTQ,
                                     TIOCGPGRP, TIOCSPGRP, TIOCGSID, SIOCATMARK,
                                     BLKSSZGET, BLKROGET,  FIGETBSZ, RNDGETENTCNT};

void AddHex(uint32_t value, std::string* text) {
  std::array<char, 8> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  text->append(value == 0 ? "0" : "0x");
  if (value != 0) text->append(digits.data(), end.ptr);
}

}  // namespace

std::string IoctlRequestText(uint32_t request) {
  for (const NamedRequest& named : kRequests) {
    if (named.value == request) return std::string(named.name);
  }
  std::string_view direction = "_IOC_NONE";
  if (_IOC_DIR(request) == _IOC_READ) direction = "_IOC_READ";
  if (_IOC_DIR(request) == _IOC_WRITE) direction = "_IOC_WRITE";
  if (_IOC_DIR(request) == (_IOC_READ | _IOC_WRITE)) direction = "_IOC_READ|_IOC_WRITE";
  std::string text = "_IOC(" + std::string(direction);
  for (const uint32_t part : {_IOC_TYPE(request), _IOC_NR(request), _IOC_SIZE(request)}) {
    text += ", ";
    AddHex(part, &text);
  }
  return text + ")";
}

bool IoctlTakesInt(uint32_t request) {
  return std::find(std::begin(kIntRequests), std::end(kIntRequests), request) !=
         std::end(kIntRequests);
}

}  // namespace proftrace
