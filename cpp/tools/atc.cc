// The command `atc`; all of it is in libascendcl.so.

#include "../bridge.h"

int main(int argc, char **argv)
{
    return CairnAtc(argc, argv);
}
