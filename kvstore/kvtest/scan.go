package kvtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

func order(t *testing.T, c Config) {
	s := open(t, c)
	sorted := []string{"\x00", "\x00\x00", "\x01", "a", "a\x00", "a\x00\x00", "a\x01", "aa", "ab",
		"b", "\x7f", "\x80", "é", "\xff", "\xff\x00", "\xff\xff"}
	for _, i := range []int{7, 3, 11, 15, 0, 9, 2, 13, 5, 14, 1, 8, 12, 4, 10, 6} {
		s.put(sorted[i], fmt.Sprint(i))
	}
	for i, e := range s.scan(kvstore.Range{Limit: 3}, nil) {
		if string(e.Key) != sorted[i] || string(e.Value) != fmt.Sprint(i) {
			t.Errorf("entry %d is %q = %q, want %q", i, e.Key, e.Value, sorted[i])
		}
	}
	s.delete("a", "\xff")
	if got := s.keys(kvstore.Range{}); len(got) != len(sorted)-2 || slices.Contains(got, "a") {
		t.Errorf("after deletes: %q", got)
	}
}

func ranges(t *testing.T, c Config) {
	s := open(t, c)
	for _, k := range []string{"a", "c/1", "c/2", "c/3", "chat-1", "chat-10", "chat-2", "d", "\xff",
		"\xff\xff"} {
		s.put(k, k)
	}
	chat1, chat10 := string(kvstore.Key("chat-1")), string(kvstore.Key("chat-10"))
	s.put(string(kvstore.Key("chat-1", "x")), "")
	s.put(string(kvstore.Key("chat-10", "x")), "")
	b := func(s string) []byte { return []byte(s) }
	for _, test := range []struct {
		name string
		r    kvstore.Range
		want []string
	}{
		{"a prefix", kvstore.Range{Prefix: b("c/")}, []string{"c/1", "c/2", "c/3"}},
		{"a prefix that is a key", kvstore.Range{Prefix: b("c/2")}, []string{"c/2"}},
		{"no such prefix", kvstore.Range{Prefix: b("c/4")}, []string{}},
		{"the last prefix", kvstore.Range{Prefix: b("\xff")}, []string{"\xff", "\xff\xff"}},
		{"an escaped tuple", kvstore.Range{Prefix: b(chat1)}, []string{chat1 + "x\x00"}},
		{"another", kvstore.Range{Prefix: b(chat10)}, []string{chat10 + "x\x00"}},
		{"after", kvstore.Range{Prefix: b("c/"), After: b("c/1")}, []string{"c/2", "c/3"}},
		{"after an absent key", kvstore.Range{Prefix: b("c/"), After: b("c/11")},
			[]string{"c/2", "c/3"}},
		{"after what precedes the prefix", kvstore.Range{Prefix: b("c/"), After: b("a")},
			[]string{"c/1", "c/2", "c/3"}},
		{"after the prefix itself", kvstore.Range{Prefix: b("c/2"), After: b("c/2")}, []string{}},
		{"after all of the prefix", kvstore.Range{Prefix: b("c/"), After: b("d")}, []string{}},
		{"before", kvstore.Range{Prefix: b("c/"), Before: b("c/3")}, []string{"c/1", "c/2"}},
		{"before an absent key", kvstore.Range{Prefix: b("c/"), Before: b("c/22")},
			[]string{"c/1", "c/2"}},
		{"before the prefix", kvstore.Range{Prefix: b("c/"), Before: b("c")}, []string{}},
		{"between", kvstore.Range{After: b("a"), Before: b("c/2")}, []string{"c/1"}},
		{"between, inverted", kvstore.Range{After: b("d"), Before: b("a")}, []string{}},
		{"empty bounds are none", kvstore.Range{Prefix: b("c/"), After: b(""), Before: b("")},
			[]string{"c/1", "c/2", "c/3"}},
		{"negative limit is none", kvstore.Range{Prefix: b("c/"), Limit: -1},
			[]string{"c/1", "c/2", "c/3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := store{t, s.kv}
			if got := s.keys(test.r); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			test.r.Limit = 1
			if got := s.keys(test.r); !slices.Equal(got, test.want) {
				t.Errorf("one at a time: got %q, want %q", got, test.want)
			}
		})
	}
}

// pages makes sure of the number of entries, around each boundary.
func pages(t *testing.T, c Config) {
	s := open(t, c)
	const n = kvstore.MaxPage + 5
	var want []string
	for i := 0; i < n; {
		var b kvstore.Batch
		for ; i < n && b.Operations() < kvstore.MaxOperations; i++ {
			key := fmt.Sprintf("k%05d", i)
			want = append(want, key)
			b.Puts = append(b.Puts, put(key, "v"))
		}
		s.apply(b)
	}
	for _, limit := range []int{0, 1, n - 1, n, n + 1, kvstore.MaxPage - 1, kvstore.MaxPage,
		kvstore.MaxPage + 1} {
		p := s.page(kvstore.Range{Limit: limit})
		if last := len(p.Entries) == n; !p.More && !last || p.More && last {
			t.Errorf("limit %d: %d of %d entries, and more: %v", limit, len(p.Entries), n, p.More)
		}
	}
	for _, limit := range []int{0, 7, 67, 201} { // 201 divides n
		if got := s.keys(kvstore.Range{Limit: limit}); !slices.Equal(got, want) {
			t.Errorf("limit %d: %d keys, want %d, or not the same", limit, len(got), n)
		}
	}
}

// pageBytes makes sure that large entries make short pages, and that none is
// lost.
func pageBytes(t *testing.T, c Config) {
	s := open(t, c)
	const n = 40
	for i := range n {
		s.put(fmt.Sprintf("k%05d", i), strings.Repeat("v", kvstore.MaxValue-i))
	}
	p := s.page(kvstore.Range{}) // checks the bytes
	if !p.More {
		t.Errorf("%d entries of 64 KiB on one page", len(p.Entries))
	}
	for i, e := range s.scan(kvstore.Range{}, nil) {
		if string(e.Key) != fmt.Sprintf("k%05d", i) || len(e.Value) != kvstore.MaxValue-i {
			t.Fatalf("entry %d is %q of %d bytes", i, e.Key, len(e.Value))
		}
	}
}

// pageIsOneMoment writes two keys together, again and again, and never sees
// them apart on a page.
func pageIsOneMoment(t *testing.T, c Config) {
	s := open(t, c)
	s.apply(kvstore.Batch{Puts: []kvstore.Put{put("a", "0"), put("z", "0")}})
	for i := range 40 {
		s.put(fmt.Sprintf("m%d", i), strings.Repeat("x", 1000)) // so that the two aren't neighbours
	}
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			v := fmt.Sprint(i)
			if _, err := s.kv.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{put("a", v),
				put("z", v)}}); err != nil && ctx.Err() == nil {
				t.Errorf("Apply: %v", err)
				return
			}
		}
	})
	defer writer.Wait()
	defer stop()
	seen := map[string]bool{}
	for i := 0; i < 200 || len(seen) < 3 && i < 100_000; i++ {
		p := s.page(kvstore.Range{})
		a, z := string(p.Entries[0].Value), string(p.Entries[len(p.Entries)-1].Value)
		if a != z {
			t.Fatalf("one page has a = %s and z = %s", a, z)
		}
		seen[a] = true
	}
	if len(seen) < 3 {
		t.Errorf("%d states seen: nothing was written meanwhile", len(seen))
	}
}

// stableKeyIsSeenOnce scans while the keys around come and go.
func stableKeyIsSeenOnce(t *testing.T, c Config) {
	s := open(t, c)
	var want []string
	for i := range 50 {
		key := fmt.Sprintf("%03d", 2*i)
		want = append(want, key)
		s.put(key, "stays")
	}
	turn, there := 0, map[string]bool{}
	churn := func() {
		turn++
		var b kvstore.Batch
		for i := turn % 7; i < 50; i += 7 {
			key := fmt.Sprintf("%03d", 2*i+1)
			if there[key] = !there[key]; there[key] {
				b.Puts = append(b.Puts, put(key, "comes and goes"))
			} else {
				b.Deletes = append(b.Deletes, []byte(key))
			}
		}
		s.apply(b)
	}
	for _, limit := range []int{1, 3, 10} {
		var got []string
		for _, e := range s.scan(kvstore.Range{Limit: limit}, churn) {
			if string(e.Value) == "stays" {
				got = append(got, string(e.Key))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
	}
}
