// Writes a plain record into the calling thread's slot of the ring (patch_memory.h). Runs in the
// job, in every thread, between any two instructions of its code: it calls nothing outside, makes no
// system call, locks nothing but once a thread, and reads no memory but its own and the thread's id.
#include "bpf/abi/patch_memory.h"

        .intel_syntax noprefix
        .text
        .balign 64
        .globl proftrace_recorder_code, proftrace_recorder_call, proftrace_recorder_full
        .globl proftrace_recorder_end, proftrace_recorder_stack_call
        .globl proftrace_control, proftrace_recorder_operator
        .hidden proftrace_recorder_end, proftrace_recorder_stack_call
        .hidden proftrace_recorder_code, proftrace_recorder_call, proftrace_recorder_full
        .hidden proftrace_control, proftrace_recorder_operator

#define SLOT_TABLE PATCH_RING_HEADER_BYTES

        // In r8 the slot where this thread is looked for first, of the ring in rdx; equal: it is its
        // own. In rcx what find_slot needs.
.macro first_slot
        mov     rcx, fs:[0x10]          // the thread control block's own address
        movabs  r8, PATCH_SLOT_SPREAD  // spreads addresses a whole stack apart
        imul    r8, rcx
        shr     r8, 64 - PATCH_SLOT_BITS
        shl     r8d, PATCH_SLOT_SHIFT
        lea     r8, [rdx + r8 + SLOT_TABLE]
        cmp     [r8 + PATCH_SLOT_OWNER], rcx
.endm

        // In rax one more than the address of this thread's variable (struct pt_thread_variable), by
        // the dtv in rcx, as find_sequence() finds it; to `seldom` where it has none. Writes rdi.
.macro thread_variable place
        mov     rdi, [rip + proftrace_control + PATCH_CONTROL_AUTOGRAD + \place]
        test    rdi, rdi
        jz      seldom
        mov     rax, [rdi]
        cmp     rax, [rcx - 16]
        ja      seldom
        shl     rax, 4
        mov     rax, [rcx + rax]
        inc     rax
        cmp     rax, 1
        jbe     seldom
        add     rax, [rdi + 8]
        add     rax, [rip + proftrace_control + PATCH_CONTROL_AUTOGRAD + \place + 8]
.endm

        // Where the control page is in a job, for the distances to it.
proftrace_control:
        .skip   PATCH_CONTROL_BYTES
proftrace_recorder_code:
        mov     rcx, [rip + proftrace_control + PATCH_CONTROL_RING]
        test    rcx, rcx
        jz      leave
        mov     r8, [rcx + PATCH_RING_DEMOTIONS]
        movzx   eax, r10w               // the site
        movzx   eax, word ptr [r8 + rax * 2]
        test    eax, eax
        jnz     demoted
record:
        mov     rdx, rcx
        first_slot
        jne     first_record
have_slot:
        mov     rcx, rdx
        rdtsc
        shl     rdx, 32
        or      rax, rdx
        mov     rdx, rcx
        cmp     rax, [rdx + PATCH_RING_DEADLINE]
        ja      leave
        mov     rcx, [r8 + PATCH_SLOT_TAIL]
        sub     rcx, [r8 + PATCH_SLOT_FLOOR]
        cmp     rcx, [rdx + PATCH_RING_LIMIT]
        ja      look_again
reserve:
        // One instruction: a signal handler may write records before and after it, not within.
        mov     ecx, r10d
        shr     ecx, 24                 // its words
        xadd    [r8 + PATCH_SLOT_TAIL], rcx
        shl     r10, 32                 // info | sp >> 3: a record's third word
        shr     r11, 3
        mov     r11d, r11d
        or      r10, r11
        mov     r11, rcx
        and     rcx, [rdx + PATCH_RING_MASK]
        mov     r8, [r8 + PATCH_SLOT_WORDS]
        lea     r8, [r8 + rcx * 8]
        mov     [r8], rax
        mov     [r8 + 16], r10
        movsxd  rcx, dword ptr [rdx + PATCH_RING_TID_OFFSET]
        mov     ecx, fs:[rcx]
        mov     [r8 + 12], ecx
        bt      r10, 32 + 24 + 2        // four words
        jc      with_number
commit:
        add     r11d, [rdx + PATCH_RING_SALT]
        mov     [r8 + 8], r11d          // valid from here on
leave:
        ret
with_number:
        mov     [r8 + 24], rdi
        jmp     commit

        // An operator's begin, as proftrace_on_operator, which does what is seldom.
proftrace_recorder_operator:
        mov     rcx, [rip + proftrace_control + PATCH_CONTROL_RING]
        test    rcx, rcx
        jz      leave
        mov     r8, [rcx + PATCH_RING_DEMOTIONS]
        movzx   eax, r10w
        movzx   eax, word ptr [r8 + rax * 2]
        test    eax, eax
        jnz     count
        mov     rdx, rcx
        mov     ecx, r10d
        shr     ecx, 16
        shr     rdi, cl                 // by its low 6 bits
        test    dil, 7
        jz      no_number
        test    r10d, 1 << 24
        jz      1f
        cmp     rdi, 7
        ja      no_number
1:      first_slot
        jne     seldom
        movsxd  rdi, dword ptr [rdx + PATCH_RING_TID_OFFSET]
        mov     edi, fs:[rdi]
        cmp     edi, [r8 + PATCH_SLOT_ANNOUNCED]
        jne     seldom
        mov     rcx, [rcx + 8]
        thread_variable PATCH_AUTOGRAD_GRAD_MODE
        test    byte ptr [rax - 1], 1
        jz      no_number
        thread_variable PATCH_AUTOGRAD_SEQUENCE
        mov     rdi, [rax - 1]
        movzx   r10d, r10w
        or      r10d, PATCH_NUMBERED_BEGIN_INFO
        jmp     have_slot
no_number:
        movzx   r10d, r10w
        or      r10d, PATCH_BEGIN_INFO
        mov     rcx, rdx
        jmp     record
        // The thread has no slot yet, or not all of its variables.
seldom:
        push    rsi
        push    r9
        mov     edi, 1                  // a key that asks for the number
        movzx   esi, r10w
        mov     rdx, r11
        call    proftrace_on_operator
        pop     r9
        pop     rsi
        ret

first_record:
        call    find_slot
        test    r8, r8
        jnz     have_slot
        ret

        // Here a site's calls are only counted. The record is an end, or (where the way of
        // operators' begins is not to be had) a begin.
demoted:
        mov     edx, r10d
        shr     edx, 16
        cmp     dl, PATCH_END_KIND
        jne     count
        test    eax, 1
        jz      record
        ret
count:
        shr     eax, 1
        movzx   eax, al                 // below PATCH_COUNTERS, whatever the job has written there
        mov     rdx, rcx
        first_slot
        je      1f
        call    find_slot
        test    r8, r8
        jz      leave
1:      mov     r8, [r8 + PATCH_SLOT_COUNTS]
        inc     qword ptr [r8 + rax * 8]
        ret

        // In r8 the slot of this thread, or a free one, which is its own from then on; 0: there is
        // none. By C, which keeps none of these.
find_slot:
        push    rax
        push    rcx
        push    rdx
        push    rsi
        push    rdi
        push    r9
        push    r10
        push    r11
        mov     rdi, rdx
        mov     rsi, r8
        mov     rdx, rcx
        call    proftrace_find_slot
        mov     r8, rax
        pop     r11
        pop     r10
        pop     r9
        pop     rdi
        pop     rsi
        pop     rdx
        pop     rcx
        pop     rax
        ret

        // No room by what the reader had taken the last time, or records were lost since.
look_again:
        mov     rcx, [r8 + PATCH_SLOT_HEAD]
        mov     [r8 + PATCH_SLOT_FLOOR], rcx
        sub     rcx, [r8 + PATCH_SLOT_TAIL]
        neg     rcx
        cmp     rcx, [rdx + PATCH_RING_LIMIT]
        ja      lose
        cmp     qword ptr [r8 + PATCH_SLOT_LOST], 0
        je      reserve
        // First what was lost. A handler in between tells of a part of it, or of nothing.
        push    rbx
        push    r9
        xor     r9d, r9d
        xchg    r9, [r8 + PATCH_SLOT_LOST]
        test    r9, r9
        jz      5f
        mov     ecx, PATCH_LOSS_WORDS
        xadd    [r8 + PATCH_SLOT_TAIL], rcx
        mov     ebx, ecx
        and     rcx, [rdx + PATCH_RING_MASK]
        shl     rcx, 3
        add     rcx, [r8 + PATCH_SLOT_WORDS]
        mov     [rcx], rax
        mov     [rcx + 24], r9
        mov     dword ptr [rcx + 16], 0
        mov     dword ptr [rcx + 20], PATCH_LOSS_INFO
        movsxd  r9, dword ptr [rdx + PATCH_RING_TID_OFFSET]
        mov     r9d, fs:[r9]
        mov     [rcx + 12], r9d
        add     ebx, [rdx + PATCH_RING_SALT]
        mov     [rcx + 8], ebx
5:      pop     r9
        pop     rbx
        jmp     reserve

        // The end of an operator, or a catch (site 0), where stacks of Python's are recorded: what
        // the thread holds to be open is not any more (on_python_row_end()).
proftrace_recorder_end:
        mov     rdx, [rip + proftrace_control + PATCH_CONTROL_RING]
        test    rdx, rdx
        jz      leave
        first_slot
        je      1f
        call    find_slot
        test    r8, r8
        jz      proftrace_recorder_code
1:      mov     r8, [r8 + PATCH_SLOT_STACKS]
        test    r8, r8
        jz      proftrace_recorder_code
        test    r10w, r10w
        jz      2f
        cmp     [r8 + PATCH_STACKS_OPEN_SITE], r10w
        jne     proftrace_recorder_code
2:      mov     qword ptr [r8 + PATCH_STACKS_OPEN_SP], 0
        jmp     proftrace_recorder_code

lose:
        inc     qword ptr [r8 + PATCH_SLOT_LOST]
        inc     dword ptr [r8 + PATCH_SLOT_LOSSES]
        // So that the next record comes here, too, and tells of the loss first.
        mov     rcx, [r8 + PATCH_SLOT_TAIL]
        sub     rcx, [rdx + PATCH_RING_LIMIT]
        dec     rcx
        mov     [r8 + PATCH_SLOT_FLOOR], rcx
        ret

        // The registers that a signature counts, for C, which keeps them itself.
        .macro  call_with_registers function
        push    r15
        push    r14
        push    r13
        push    r12
        push    rbp
        push    rbx
        mov     r9, rsp
        call    \function
        add     rsp, 48
        ret
        .endm
proftrace_recorder_call:
        call_with_registers proftrace_on_call
proftrace_recorder_stack_call:
        call_with_registers proftrace_on_call_stack

        // struct pt_regs on the stack, for C. Its last words are filled as far as they are used.
proftrace_recorder_full:
        sub     rsp, 40                 // ip, cs, flags, sp, ss
        mov     [rsp + 24], r11
        push    r10                     // orig_ax
        push    rdi
        push    rsi
        push    rdx
        push    rcx
        push    rax
        push    r8
        push    r9
        push    [rsp + 8 * 8 + 40 + 8]  // r10
        push    [rsp + 9 * 8 + 40 + 16] // r11
        push    rbx
        push    rbp
        push    r12
        push    r13
        push    r14
        push    r15
        mov     rdi, rsp
        mov     rbp, rsp
        and     rsp, -16
        call    proftrace_on_point
        mov     rsp, rbp
        mov     rbp, [rsp + 4 * 8]
        add     rsp, 8 * 8              // those that a call keeps, r10 and r11
        pop     r9
        pop     r8
        pop     rax
        pop     rcx
        pop     rdx
        pop     rsi
        pop     rdi
        add     rsp, 48
        ret
        .section .note.GNU-stack, "", @progbits
