// The GPU agent's file, as it is (PROFTRACE_AGENT_LIBRARY: its path, from the build).
        .section .rodata
        .balign 8
        .globl proftrace_agent_library
        .globl proftrace_agent_library_end
        .hidden proftrace_agent_library
        .hidden proftrace_agent_library_end
proftrace_agent_library:
        .incbin PROFTRACE_AGENT_LIBRARY
proftrace_agent_library_end:

        .section .note.GNU-stack,"",@progbits
