/* Reads the log of this process. Call log_begin before the first call of ACL. */
#ifndef CAIRN_TESTS_LOGGED_H
#define CAIRN_TESTS_LOGGED_H

#include "check.h"
#include <dirent.h>

static char log_folder[] = "/tmp/cairn-logged-XXXXXX";

/* Warnings and errors go to files in a folder of this program's own. */
__attribute__((unused)) static void log_begin(void)
{
    CHECK(mkdtemp(log_folder) != NULL);
    setenv("ASCEND_GLOBAL_LOG_LEVEL", "2", 1);
    setenv("ASCEND_PROCESS_LOG_PATH", log_folder, 1);
}

__attribute__((unused)) static int log_line_has(const char *line, const char *const parts[])
{
    for (; *parts; parts++)
        if (!strstr(line, *parts))
            return 0;
    return 1;
}

/* How many lines have all of these parts; the list ends with NULL. */
__attribute__((unused)) static int log_lines(const char *const parts[])
{
    char path[600], line[2048];
    int found = 0;
    snprintf(path, sizeof path, "%s/debug/plog", log_folder);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "%s/debug/plog/%s", log_folder, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            found += log_line_has(line, parts);
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

#define LOGGED(...) log_lines((const char *const[]){__VA_ARGS__, NULL})

__attribute__((unused)) static void log_end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", log_folder);
    CHECK_EQ(system(command), 0);
}

#endif
