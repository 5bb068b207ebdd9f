// machine_state.h says what these do.
#include "machine_state.h"

        .intel_syntax noprefix
        .section .tbss, "awT", @nobits
        .balign 8
thread_stack:   .skip 8
thread_out:     .skip 8
thread_next:    .skip 8
thread_rax:     .skip 8

        .text
        .globl pass_state
        .type pass_state, @function
pass_state:
        push    rbx
        push    rbp
        push    r12
        push    r13
        push    r14
        push    r15
        mov     fs:[thread_stack@tpoff], rsp
        mov     fs:[thread_out@tpoff], rsi
        lea     rax, [rip + after_the_point]
        lea     rcx, [rip + state_point]
        test    rdx, rdx
        cmovne  rax, rcx
        mov     fs:[thread_next@tpoff], rax
        mov     eax, -1
        mov     edx, -1
        xrstor64 [rdi + STATE_VECTORS]
        lea     rax, [rip + passed]
        push    rax
        push    qword ptr [rdi + STATE_FLAGS]
        popfq
        .set    at, 0
        .rept   16
        mov     rax, [rdi + STATE_RED_ZONE + at]
        mov     [rsp - 8 - at], rax
        .set    at, at + 8
        .endr
        mov     rax, [rdi]
        mov     rbx, [rdi + 8]
        mov     rcx, [rdi + 16]
        mov     rdx, [rdi + 24]
        mov     rsi, [rdi + 32]
        mov     rbp, [rdi + 48]
        mov     r8, [rdi + 56]
        mov     r9, [rdi + 64]
        mov     r10, [rdi + 72]
        mov     r11, [rdi + 80]
        mov     r12, [rdi + 88]
        mov     r13, [rdi + 96]
        mov     r14, [rdi + 104]
        mov     r15, [rdi + 112]
        mov     rdi, [rdi + 40]
        jmp     qword ptr fs:[thread_next@tpoff]

        // The first instruction is a probe's; the five bytes behind it are for a jump.
        .globl state_point
        .type state_point, @function
state_point:
        nop
        .byte   0x0f, 0x1f, 0x44, 0x00, 0x00
after_the_point:
        mov     fs:[thread_rax@tpoff], rax
        mov     rax, fs:[thread_out@tpoff]
        mov     [rax + 8], rbx
        mov     rbx, fs:[thread_rax@tpoff]
        mov     [rax], rbx
        mov     [rax + 16], rcx
        mov     [rax + 24], rdx
        mov     [rax + 32], rsi
        mov     [rax + 40], rdi
        mov     [rax + 48], rbp
        mov     [rax + 56], r8
        mov     [rax + 64], r9
        mov     [rax + 72], r10
        mov     [rax + 80], r11
        mov     [rax + 88], r12
        mov     [rax + 96], r13
        mov     [rax + 104], r14
        mov     [rax + 112], r15
        .set    at, 0
        .rept   16
        mov     rbx, [rsp - 8 - at]
        mov     [rax + STATE_RED_ZONE + at], rbx
        .set    at, at + 8
        .endr
        pushfq
        pop     qword ptr [rax + STATE_FLAGS]
        mov     rdi, rax
        mov     eax, -1
        mov     edx, -1
        xsave64 [rdi + STATE_VECTORS]
        push    2
        popfq
        ret
        .size   state_point, . - state_point

passed:
        mov     eax, -1
        mov     edx, -1
        xrstor64 [rip + clean_state + STATE_VECTORS]
        mov     rsp, fs:[thread_stack@tpoff]
        pop     r15
        pop     r14
        pop     r13
        pop     r12
        pop     rbp
        pop     rbx
        ret
        .size   pass_state, . - pass_state

        // struct rseq_cs and struct rseq of linux/rseq.h.
        .section .data.rel.ro, "aw"
        .balign 32
sequence:
        .long   0, 0
        .quad   sequence_start, sequence_end - sequence_start, sequence_ended

        .text
        .globl add_per_processor
        .type add_per_processor, @function
add_per_processor:
        lea     rax, [rip + sequence]
        mov     fs:[rsi + 8], rax
sequence_start:
        mov     eax, fs:[rsi + 4]
        mov     rcx, rax
        shl     rcx, 6
        mov     r8, [rdi + rcx]
1:      dec     rdx
        jnz     1b
        inc     r8
        mov     [rdi + rcx], r8
sequence_end:
        ret
        // No code leads here but the kernel, which asks for these bytes before it.
        .byte   0x0f, 0xb9, 0x3d
        .long   0x53053053
sequence_ended:
        mov     rax, -1
        ret
        .size   add_per_processor, . - add_per_processor
        .section .note.GNU-stack, "", @progbits
