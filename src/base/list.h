/* Intrusive doubly linked list: the head and the nodes are struct list. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Adds n before the head: at the tail. */
static inline void list_add_tail(struct list *head, struct list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

static inline void list_add_head(struct list *head, struct list *n)
{
	list_add_tail(head->next, n);
}

/* Takes n out and leaves it an empty list; doing it twice is harmless. */
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#define list_for_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
/* The body may remove `it` (nothing else). */
#define list_for_each_safe(it, head)                                                               \
	for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                  \
		it = it##_next, it##_next = it->next)
