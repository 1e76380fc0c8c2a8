// tools: init
/* An operator reads memory that nobody wrote. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    Numbers numbers = new_numbers();
    MUST(aclrtFree(numbers.numbers));
    MUST(aclrtMalloc(&numbers.numbers, SORT_BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef RIGHT
    MUST(aclrtMemset(numbers.numbers, SORT_BYTES, 0, SORT_BYTES));
#endif
    sort(numbers, stream);
    MUST(aclrtSynchronizeStream(stream));
    free_numbers(numbers);
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
