// What a thread of the target runs when it comes by a patched place (injection_code.h has the
// layout of the data page, which lies right before the page that this is copied to).
#include "userspace/inject/injection_code.h"

        .intel_syntax noprefix
        .section .rodata
        .balign 64
        .globl proftrace_injection_code
        .globl proftrace_injection_code_end
        .hidden proftrace_injection_code
        .hidden proftrace_injection_code_end

#define DATA (proftrace_injection_code - INJECT_PAGE_BYTES)

proftrace_injection_code:
        // The stub has saved the flags; only rax may be written here, it has saved that, too.
        cmp     dword ptr [rip + DATA + INJECT_STATE], INJECT_ARMED
        jne     1f
        push    rcx
        mov     eax, INJECT_ARMED
        mov     ecx, INJECT_WORKING
        lock cmpxchg dword ptr [rip + DATA + INJECT_STATE], ecx
        pop     rcx
        je      work
1:      ret

work:
        push    2                       // no flag is set: string instructions go up, nothing is aligned
        popfq
        push    rbx
        push    rcx
        push    rdx
        push    rsi
        push    rdi
        push    rbp
        push    r8
        push    r9
        push    r10
        push    r11
        push    r12
        push    r13
        push    r14
        push    r15
        lea     rbx, [rip + DATA]
        mov     [rbx + INJECT_CALLER_STACK], rsp

        // Block all signals: no handler may run on this stack, and the library's threads inherit it.
        mov     eax, 14                 // rt_sigprocmask
        xor     edi, edi                // SIG_BLOCK
        lea     rsi, [rbx + INJECT_ALL_SIGNALS]
        lea     rdx, [rbx + INJECT_SAVED_SIGNALS]
        mov     r10d, 8
        syscall

        mov     rsp, [rbx + INJECT_STACK_TOP]
        sub     rsp, [rbx + INJECT_XSAVE_BYTES]
        and     rsp, -64
        mov     rbp, rsp
        // The header of an XSAVE area must be zero where the processor does not write it.
        xor     eax, eax
        mov     ecx, 8
        lea     rdi, [rsp + 512]
        rep stosq
        mov     eax, -1
        mov     edx, -1
        xsave64 [rbp]
        fninit
        push    0x1f80                  // MXCSR as a new thread has it; two words keep rsp aligned
        ldmxcsr [rsp]
        push    0

        call    [rbx + INJECT_ERRNO_LOCATION]
        mov     r12, rax
        mov     r13d, [rax]

        mov     rax, [rbx + INJECT_FUNCTION]
        test    rax, rax
        jnz     have_function
        lea     rdi, [rbx + INJECT_LIBRARY_PATH]
        mov     esi, 2                  // RTLD_NOW
        call    [rbx + INJECT_DLOPEN]
        test    rax, rax
        jz      refused
        mov     rdi, rax
        lea     rsi, [rbx + INJECT_FUNCTION_NAME]
        call    [rbx + INJECT_DLSYM]
        test    rax, rax
        jz      refused
have_function:
        call    rax
        mov     [rbx + INJECT_RESULT], eax
        mov     r14d, INJECT_DONE
        jmp     leave

refused:
        call    [rbx + INJECT_DLERROR]
        mov     r14d, INJECT_FAILED
        test    rax, rax
        jz      leave
        xor     ecx, ecx
2:      mov     dl, [rax + rcx]
        mov     [rbx + INJECT_ERROR + rcx], dl
        test    dl, dl
        jz      leave
        inc     ecx
        cmp     ecx, INJECT_ERROR_BYTES - 1
        jb      2b
        mov     byte ptr [rbx + INJECT_ERROR + rcx], 0

leave:
        mov     edi, [rbx + INJECT_LIBRARY_FD]
        test    edi, edi
        js      3f
        mov     eax, 3                  // close
        syscall
3:      mov     [r12], r13d
        mov     eax, -1
        mov     edx, -1
        xrstor64 [rbp]
        mov     rsp, [rbx + INJECT_CALLER_STACK]
        mov     eax, 14                 // rt_sigprocmask
        mov     edi, 2                  // SIG_SETMASK
        lea     rsi, [rbx + INJECT_SAVED_SIGNALS]
        xor     edx, edx
        mov     r10d, 8
        syscall
        mov     [rbx + INJECT_STATE], r14d
        pop     r15
        pop     r14
        pop     r13
        pop     r12
        pop     r11
        pop     r10
        pop     r9
        pop     r8
        pop     rbp
        pop     rdi
        pop     rsi
        pop     rdx
        pop     rcx
        pop     rbx
        ret
proftrace_injection_code_end:
        .section .note.GNU-stack, "", @progbits
