package main

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestTable(t *testing.T) {
	for _, test := range []struct{ name, in, out, rest string }{{
		name: "one run",
		in: `goos: linux
BenchmarkToolCall/turns=10-2         	       1	  12345678 ns/op	        14.23 us/call	       101.0 allocs/call
BenchmarkHistory/Resume-2            	       1	      1050 ns/op	         1.050 x-10000-vs-10	      4096 bytes/cycle
BenchmarkPlain-2                     	     100	      10.5 ns/op	       3 B/op	       1 allocs/op
PASS
`,
		out: `benchmark          metric           value
ToolCall/turns=10  us/call          14.23
                   allocs/call     101
History/Resume     x-10000-vs-10     1.05
                   bytes/cycle    4096
Plain              ns/op            10.50
`,
		rest: "goos: linux\nPASS\n",
	}, {
		name: "several runs",
		in: `BenchmarkA 1 5 ns/op 3 x
BenchmarkB 1 5 ns/op 0.5 x
BenchmarkA 1 5 ns/op 10.25 x
BenchmarkA 1 5 ns/op 4 x
`,
		out: `benchmark  metric  median  lowest  highest
A          x         4          3    10.25
B          x         0.50
`,
	}} {
		t.Run(test.name, func(t *testing.T) {
			var out, rest strings.Builder
			if err := run(strings.NewReader(test.in), &out, &rest); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.out || rest.String() != test.rest {
				t.Errorf("got\n%s\nand beside it\n%s", out.String(), rest.String())
			}
		})
	}
}

func TestNoTable(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":        "",
		"a failure":      "BenchmarkA-2 1 5 ns/op\n--- FAIL: BenchmarkB\nFAIL\n",
		"a panic":        "BenchmarkA-2 1 5 ns/op\npanic: no\n",
		"no number":      "BenchmarkA-2 1 five ns/op\n",
		"only a name":    "BenchmarkA-2\n",
		"a broken build": "# module/bench\nFAIL module/bench [build failed]\n",
	} {
		var out, rest strings.Builder
		if err := run(strings.NewReader(in), &out, &rest); err == nil || out.Len() > 0 {
			t.Errorf("%s: no error, and\n%s", name, out.String())
		}
	}
	broken := errors.New("broken")
	if err := run(iotest.ErrReader(broken), &strings.Builder{},
		&strings.Builder{}); !errors.Is(err, broken) {
		t.Errorf("a reader's error becomes %v", err)
	}
}
