// Package recent has a cache of the values that were asked for last. It is for
// values that can be made again; it knows no times and no sizes.
package recent

import (
	"container/list"
	"sync"
)

// Cache keeps the values that were asked for last. The zero value is ready to
// use, from many goroutines too.
type Cache[K comparable, V any] struct {
	mu    sync.Mutex          // guards byKey and order; held for no code of others
	byKey map[K]*list.Element // of entry[K, V]
	order list.List           // the last one asked for is first
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// Get returns the value under key, if it is still there.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true
}

// Default is how many values a cache keeps for a caller that gives no limit.
const Default = 256

// Put keeps a value, in place of one that is there under key, and forgets the
// oldest beyond limit; zero: beyond Default.
func (c *Cache[K, V]) Put(key K, value V, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		e.Value = entry[K, V]{key, value}
		c.order.MoveToFront(e)
		return
	}
	if c.byKey == nil {
		c.byKey = map[K]*list.Element{}
	}
	c.byKey[key] = c.order.PushFront(entry[K, V]{key, value})
	if limit <= 0 {
		limit = Default
	}
	for c.order.Len() > limit {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byKey, last.Value.(entry[K, V]).key)
	}
}

// Len returns how many values the cache keeps.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}
