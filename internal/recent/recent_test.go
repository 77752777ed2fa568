package recent

import (
	"strconv"
	"sync"
	"testing"
)

func TestTheLastThatWereAskedForAreKept(t *testing.T) {
	var c Cache[string, int]
	c.Put("a", 1, 2)
	c.Put("b", 2, 2)
	c.Put("a", 3, 2)
	c.Put("c", 4, 2)
	if _, ok := c.Get("b"); ok || c.Len() != 2 {
		t.Errorf("b is still there, among %d", c.Len())
	}
	if a, _ := c.Get("a"); a != 3 {
		t.Errorf("a is %d", a)
	}
	c.Put("d", 5, 2)
	if _, ok := c.Get("c"); ok {
		t.Error("c outlived a, which was asked for after it")
	}
}

func TestManyAtOnceStayWithinTheDefault(t *testing.T) {
	var c Cache[string, int]
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 1000 {
				key := strconv.Itoa(i * (g + 1))
				c.Put(key, i, 0)
				c.Get(key)
			}
		})
	}
	all.Wait()
	if c.Len() != Default {
		t.Errorf("%d are kept", c.Len())
	}
}
