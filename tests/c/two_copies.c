// links: -ldl
/* A second copy of the library in one process is reported when it is first used. */
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

static void copy_file(const char *from, const char *to)
{
    static char buffer[1 << 16];
    int in = open(from, O_RDONLY);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0700);
    ssize_t n = -1;
    CHECK(in >= 0 && out >= 0);
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        CHECK(write(out, buffer, (size_t)n) == n);
    CHECK(n == 0);
    close(in);
    close(out);
}

int main(void)
{
    char folder[] = "/tmp/cairn-copies-XXXXXX";
    char copied[128], errors[128], text[4096] = {0};
    Dl_info linked;
    uint32_t count = 0;

    GROUP("two copies are reported and both are named");
    CHECK_CODE(aclrtGetDeviceCount(&count), 0);
    CHECK(dladdr((void *)(uintptr_t)aclrtGetDeviceCount, &linked) != 0);
    CHECK(mkdtemp(folder) != NULL);
    snprintf(copied, sizeof copied, "%s/libascendcl.so", folder);
    snprintf(errors, sizeof errors, "%s/stderr", folder);
    copy_file(linked.dli_fname, copied);

    void *copy = dlopen(copied, RTLD_NOW | RTLD_LOCAL);
    CHECK(copy != NULL);
    aclError (*set_in_copy)(int32_t) = (aclError(*)(int32_t))(uintptr_t)dlsym(copy, "aclrtSetDevice");
    int original_stderr = dup(2), file = open(errors, O_RDWR | O_CREAT, 0600);
    dup2(file, 2);
    CHECK_CODE(set_in_copy(0), 0);
    dup2(original_stderr, 2);
    CHECK(pread(file, text, sizeof text - 1, 0) > 0);
    CHECK(strstr(text, "two copies of ACL") != NULL);
    CHECK(strstr(text, copied) != NULL);

    unlink(copied);
    unlink(errors);
    rmdir(folder);
    return END();
}
