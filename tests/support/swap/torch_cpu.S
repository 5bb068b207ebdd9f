# An operator of torch's name. It begins one byte behind the begin of the bystander's function: a
# probe of it there is in the middle of an instruction.
	.section .text,"ax",@progbits
	.balign 4096
	.skip 0x101, 0x90
	.globl _ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE
	.type _ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE, @function
_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE:
	push %rbx
	mov %rdi, %rbx
	mov %rsi, %rax
	add %rbx, %rax
	pop %rbx
	ret
	.size _ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE, . - _ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE
	.skip 0x800, 0xcc
	.section .note.GNU-stack, "", @progbits
