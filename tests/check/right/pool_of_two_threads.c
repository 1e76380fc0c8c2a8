/* One thread synchronizes its stream; another, which learns of it unseen, uses the pool's memory on its own stream. */
#include "../program.h"
#include <pthread.h>
#include <semaphore.h>

static Pool pool;
static sem_t synchronized;

static void *second(void *argument)
{
    (void)argument;
    MUST(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    Numbers numbers = new_numbers();
    sem_wait(&synchronized);
    pool_register(&pool, stream);
    sort(numbers, stream);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtAllocatorUnregister(stream));
    free_numbers(numbers);
    MUST(aclrtDestroyStream(stream));
    return NULL;
}

int main(void)
{
    begin();
    pthread_t thread;
    aclrtStream stream = new_stream();
    Numbers numbers = new_numbers();
    pool_create(&pool);
    pool_register(&pool, stream);
    sem_init(&synchronized, 0, 0);
    pthread_create(&thread, NULL, second, NULL);
    sort(numbers, stream);
    MUST(aclrtSynchronizeStream(stream));
    sem_post(&synchronized);
    pthread_join(thread, NULL);
    MUST(aclrtAllocatorUnregister(stream));
    MUST(aclrtFree(pool.memory));
    free_numbers(numbers);
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
