// The entries of known_plans.h (PROFTRACE_KNOWN_PLANS: the path of a file with all of them, from the build).
        .section .rodata
        .balign 8
        .globl proftrace_known_plans
        .globl proftrace_known_plans_end
        .hidden proftrace_known_plans
        .hidden proftrace_known_plans_end
proftrace_known_plans:
        .incbin PROFTRACE_KNOWN_PLANS
proftrace_known_plans_end:

        .section .note.GNU-stack,"",@progbits
