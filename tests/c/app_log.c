/* Lines of a program in the same log as the library's: levels, private files, standard
   output on request. */
#include "check.h"
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[] = "/tmp/cairn-app-log-XXXXXX";
static char text[1 << 16];

static void read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = 0;
    if (file)
        fclose(file);
}

static void write_log(void)
{
    void *memory = NULL;
    aclAppLog(ACL_DEBUG, "write_log", "dir/app_log.c", 11, "%s %d", "details", 1);
    aclAppLog(ACL_ERROR, "write_log", "dir/app_log.c", 12, "lost %zu of %zu bytes%s", (size_t)3, (size_t)8, "!");
    aclAppLog((aclLogLevel)77, "write_log", "app_log.c", 13, "no such level");
    aclAppLog(ACL_ERROR, NULL, NULL, 14, NULL);
    (void)aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST);
}

/* Writes log lines in a child with this environment; the child's standard output goes to a file. */
static void in_child(const char *level, const char *print, const char *out)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("ASCEND_GLOBAL_LOG_LEVEL", level, 1);
        setenv("ASCEND_SLOG_PRINT_TO_STDOUT", print, 1);
        setenv("ASCEND_PROCESS_LOG_PATH", folder, 1);
        start_watchdog();
        if (freopen(out, "w", stdout) == NULL)
            _exit(2);
        write_log();
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
}

int main(void)
{
    char out[128], logs[128], path[512] = "";
    struct stat info;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(logs, sizeof logs, "%s/debug/plog", folder);

    GROUP("torch_4 on standard output, from debug on");
    in_child("0", "1", out);
    read_file(out);
    CHECK(strstr(text, "[DEBUG] APP(") != NULL && strstr(text, "[app_log.c:11]") != NULL);
    CHECK(strstr(text, "write_log: details 1\n") != NULL);
    CHECK(strstr(text, "[ERROR] APP(") != NULL && strstr(text, "lost 3 of 8 bytes!\n") != NULL);
    CHECK(strstr(text, "[ERROR] CAIRN(") != NULL && strstr(text, "aclrtMalloc: size 0") != NULL);
    CHECK(strstr(text, "no such level") == NULL);
    CHECK(stat(logs, &info) != 0);

    GROUP("torch_4 errors only, in a private file");
    in_child("3", "0", out);
    read_file(out);
    CHECK_EQ(strlen(text), 0);
    CHECK(stat(logs, &info) == 0 && (info.st_mode & 0777) == 0700);
    DIR *dir = opendir(logs);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof path, "%s/%s", logs, entry->d_name);
    if (dir)
        closedir(dir);
    CHECK(lstat(path, &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 0777) == 0600);
    read_file(path);
    CHECK(strstr(text, "details") == NULL && strstr(text, "lost 3 of 8 bytes!") != NULL);
    unlink(path);

    GROUP("torch_4 off");
    in_child("4", "1", out);
    read_file(out);
    CHECK_EQ(strlen(text), 0);

    snprintf(path, sizeof path, "rm -r %s", folder);
    CHECK_EQ(system(path), 0);
    return END();
}
