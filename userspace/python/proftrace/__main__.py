"""python -m proftrace ARGUMENTS: the program itself."""

import os
import sys

from proftrace._errors import ProftraceError
from proftrace._program import find_program

try:
    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])
except (ProftraceError, OSError) as error:
    sys.exit(f"proftrace: {error}")
