# Five, as long as nobody writes into it.
	.section .text,"ax",@progbits
	.balign 4096
	.skip 0x100, 0x90
	.globl Five
	.type Five, @function
Five:
	mov $5, %eax
	ret
	.size Five, . - Five
	.skip 0x800, 0xcc
	.section .note.GNU-stack, "", @progbits
