// Layouts of objects in the target that depend on its version alone. A version that is not known
// here is refused, not guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace proftrace {

// Returns the offset of the PyObject* in a torch::autograd::PyNode of this torch version
// ("2.11.0+cu130"); 0 = not known. Measured with each version's headers: 1.13, 2.0 to 2.15.
uint32_t PythonNodeObjectOffset(std::string_view torch_version);

// Where a torch::autograd::Node of this torch version keeps its sequence number and torch's number
// of the thread that made it; nullopt: not known. Measured with the same headers.
struct NodeOffsets {
  uint32_t sequence = 0;
  uint32_t thread = 0;
};
std::optional<NodeOffsets> NodeOffsetsOf(std::string_view torch_version);

// How Python keeps what a custom Function is called with (bpf/abi/records.h, struct
// pt_torch_layout); nullopt: not known. From the headers of both: torch 1.13, 2.0 to 2.15; Python
// 3.9 to 3.14.
struct PythonValueLayout {
  uint8_t tensor = 0;          // offset of the TensorImpl* in a Python tensor
  uint8_t items = 0;           // offset of the first item in a tuple
  bool long_tag = false;       // an int has a tag
  uint8_t dict_kind = 0;       // as pt_torch_layout.python_dict_kind
  bool shows_numbers = false;  // torch shows the numbers among the arguments, not tensors alone
};
std::optional<PythonValueLayout> PythonValueLayoutOf(std::string_view torch_version,
                                                     std::string_view python_version);

// Returns sizeof(PyASCIIObject), behind which an ASCII str of this Python ("3.11") has its
// characters; 0 = not known. From Python's headers: wstr went with 3.12.
uint8_t PythonTextOffset(std::string_view python_version);

}  // namespace proftrace
