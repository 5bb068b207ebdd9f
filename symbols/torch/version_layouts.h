// Layouts of objects in the target that depend only on the versions of torch and Python. A version
// that is not known here is refused; its layout is not guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace proftrace {

// Returns the offset of the PyObject* in a torch::autograd::PyNode of this torch version
// ("2.11.0+cu130"); 0 = not known. Measured with each version's headers: 1.13, 2.0 to 2.15.
uint32_t PythonNodeObjectOffset(std::string_view torch_version);

// The offsets in a torch::autograd::Node of its sequence number and of torch's number of the thread
// that made it. NodeOffsetsOf() returns nullopt where they are not known. Measured with the same
// headers.
struct NodeOffsets {
  uint32_t sequence = 0;
  uint32_t thread = 0;
};
std::optional<NodeOffsets> NodeOffsetsOf(std::string_view torch_version);

// The layout of the Python objects with which a custom Function is called (bpf/abi/records.h,
// struct pt_torch_layout). PythonValueLayoutOf() returns nullopt where it is not known. From the
// headers of torch 1.13 and 2.0 to 2.15, and of Python 3.9 to 3.14.
struct PythonValueLayout {
  uint8_t tensor = 0;          // offset of the TensorImpl* in a Python tensor
  uint8_t items = 0;           // offset of the first item in a tuple
  bool long_tag = false;       // the size field of an int is a tag
  uint8_t dict_kind = 0;       // as pt_torch_layout.python_dict_kind
  bool shows_numbers = false;  // torch shows numbers among the arguments, not only tensors
};
std::optional<PythonValueLayout> PythonValueLayoutOf(std::string_view torch_version,
                                                     std::string_view python_version);

// Returns sizeof(PyASCIIObject), behind which an ASCII str of this Python ("3.11") has its
// characters; 0 = not known. From Python's headers: wstr went with 3.12.
uint8_t PythonTextOffset(std::string_view python_version);

}  // namespace proftrace
