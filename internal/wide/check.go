package wide

import (
	"context"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/kvstore"
)

// Check returns what is wrong with the records of all scopes: those that can't
// be read, handles that stand in the wrong lists or at the wrong time, counts
// that aren't those of the records, gaps in the log. What changes while it runs
// may be listed in error.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	c := &check{s: s, want: map[string]bool{}, counts: map[string]int{}}
	for _, step := range []func(context.Context) error{c.handles, c.claims, c.indexes, c.shards} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.wrong)
	return c.wrong, nil
}

// check is one run of Check.
type check struct {
	s      *Store
	wrong  []string
	want   map[string]bool // entries of indexes, by their keys
	counts map[string]int  // by scope, shard, type and status
}

func (c *check) report(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// scan visits the entries of a kind.
func (c *check) scan(ctx context.Context, part string, visit func(kvstore.Entry) error) error {
	r := kvstore.Range{Prefix: kvstore.Key(kind, part)}
	for {
		page, err := c.s.kv.Scan(ctx, r)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if err := visit(e); err != nil {
				return err
			}
			r.After = e.Key
		}
		if !page.More {
			return nil
		}
	}
}

func countOf(scope string, n int, kind, status string) string {
	return fmt.Sprintf("%q, part %d, %s, %s", scope, n, kind, status)
}

func (c *check) handles(ctx context.Context) error {
	return c.scan(ctx, "r", func(e kvstore.Entry) error {
		h := new(Handle)
		if err := decode(e, h); err != nil {
			c.report("%v", err)
			return nil
		}
		for _, f := range h.filters() {
			c.want[string(indexKey(f, h))] = true
		}
		if key := h.dueKey(); key != nil {
			c.want[string(key)] = true
		}
		if h.Upkeep.Due.IsZero() && (h.End != nil || !h.Deadline.IsZero() || h.Upkeep.Tells) {
			c.report("%q is due some time, and stands nowhere", h.Name)
		}
		c.counts[countOf(h.Scope, shardOf(h.Name), h.Type, h.Status())]++
		return c.permits(ctx, h)
	})
}

// permits reports a handle whose permits aren't those of its claims.
func (c *check) permits(ctx context.Context, h *Handle) error {
	if h.Permits == nil {
		return nil
	}
	held, queued := 0, 0
	r := kvstore.Range{Prefix: claimsPrefix(h.ID())}
	for {
		page, err := c.s.kv.Scan(ctx, r)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			r.After = e.Key
			var claim Claim
			if decode(e, &claim) != nil {
				continue // reported already
			}
			if claim.Given {
				held++
				continue
			}
			queued++
			c.want[string(claim.queueKey(h.ID()))] = true
		}
		if !page.More {
			break
		}
	}
	if p := h.Permits; p.Held != held || p.Queued != queued {
		c.report("%q: %d permits are held and %d waited for, and by the claims %d and %d", h.Name,
			p.Held, p.Queued, held, queued)
	}
	return nil
}

func (c *check) claims(ctx context.Context) error {
	err := c.scan(ctx, "h", func(e kvstore.Entry) error {
		if err := decode(e, new(Claim)); err != nil {
			c.report("%v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.scan(ctx, "w", func(e kvstore.Entry) error {
		if err := decode(e, new(waiters)); err != nil {
			c.report("%v", err)
		}
		return nil
	})
}

// indexes reports entries that are missing, or should not be there.
func (c *check) indexes(ctx context.Context) error {
	for _, part := range []string{"i", dueIndex, removedIndex, "q"} {
		err := c.scan(ctx, part, func(e kvstore.Entry) error {
			if !c.want[string(e.Key)] {
				c.report("the entry %q is of nothing", e.Key)
			}
			delete(c.want, string(e.Key))
			return nil
		})
		if err != nil {
			return err
		}
	}
	for key := range c.want {
		c.report("the entry %q is missing", key)
	}
	return nil
}

// shards reports counts that are wrong, and gaps in the log.
func (c *check) shards(ctx context.Context) error {
	last := map[string]int{}
	err := c.scan(ctx, "s", func(e kvstore.Entry) error {
		var sh shard
		if err := decode(e, &sh); err != nil {
			c.report("%v", err)
			return nil
		}
		for i := range sh.Counts {
			n := &sh.Counts[i]
			key := countOf(sh.Scope, sh.Number, n.Type, n.Status)
			if c.counts[key] != n.Now {
				c.report("%s: %d are counted, and there are %d", key, n.Now, c.counts[key])
			}
			delete(c.counts, key)
		}
		for n := sh.Trimmed + 1; n <= sh.Changes; n++ {
			last[string(changeKey(sh.Scope, sh.Number, n))] = n
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, n := range c.counts {
		c.report("%s: there are %d, and none is counted", key, n)
	}
	err = c.scan(ctx, "l", func(e kvstore.Entry) error {
		if _, known := last[string(e.Key)]; !known {
			c.report("the change %q is of nothing", e.Key)
		}
		delete(last, string(e.Key))
		if err := decode(e, new(Change)); err != nil {
			c.report("%v", err)
		}
		return nil
	})
	for key := range last {
		c.report("the change %q is missing", key)
	}
	return err
}
