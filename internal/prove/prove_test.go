package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	printed := map[string]string{
		"cut": `=== RUN   TestKilled
    killed_test.go:19: 
        scenario         engine  writes  histories  unknown outcomes  violations
        one tool, once   memory  7       28         3                 0
        two gates, once  memory  10      40         3                 1
    killed_test.go:19: counted: 68 histories cut at a write, 1 violations
--- FAIL: TestKilled (0.10s)
`,
		"fuzz a": "fuzz: elapsed: 0s, execs: 0 (0/sec)\nfuzz: elapsed: 3s, execs: 2000 " +
			"(667/sec), new interesting: 1 (total: 9)\nPASS\n",
		"fuzz b": "fuzz: elapsed: 1s, execs: 500 (500/sec), new interesting: 0 (total: 2)\nPASS\n",
		"plain":  "ok\n",
	}
	run := func(p part) ([]byte, error) {
		out := printed[p.args[0]]
		if strings.Contains(out, "FAIL") {
			return []byte(out), errors.New("exit status 1")
		}
		return []byte(out), nil
	}
	var out, progress strings.Builder
	ok := prove(&out, &progress, slices.Values([]part{
		{name: "killed", args: []string{"cut"}}, {name: "fuzzed", args: []string{"fuzz a"}},
		{name: "fuzzed", args: []string{"fuzz b"}},
		{name: "engines", args: []string{"plain"}},
	}), run)
	if ok {
		t.Error("it is all well")
	}
	for _, want := range []string{
		"two gates, once  memory  10      40         3                 1\n",
		"how many  violations  of what\n",
		"68           1  killed: histories cut at a write\n",
		"1           1  killed: go test\n",
		"2500           0  fuzzed: inputs\n",
		"1           0  engines: go test\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
}

func TestFuzzTestsAreFound(t *testing.T) {
	all, err := fuzzTests("../..", false)
	if err != nil || len(all) < 10 {
		t.Errorf("%v, %v", all, err)
	}
	core, err := fuzzTests("../..", true)
	if err != nil || len(core) < 10 || len(core) >= len(all) {
		t.Errorf("%v, %v", core, err)
	}
}

// With a limit, what is left is shared among the parts that can go by time.
func TestLengths(t *testing.T) {
	now := time.Unix(0, 0)
	all := []part{{name: "engines"}, {name: "a", timed: true}, {name: "b", timed: true}}
	// This part takes longer than its share.
	took := map[string]time.Duration{"engines": 80 * time.Second, "a": 4 * time.Minute}
	var got []string
	for p := range lengths(all, 8*time.Minute, func() time.Time { return now }) {
		got = append(got, p.name+" "+p.length)
		now = now.Add(took[p.name])
	}
	if want := []string{"engines short", "a 3m5s", "b 2m25s"}; !slices.Equal(got, want) {
		t.Errorf("%q, and not %q", got, want)
	}
	for p := range lengths(all, time.Second, time.Now) {
		if p.timed && p.length != atLeast.String() {
			t.Errorf("%s is %s", p.name, p.length)
		}
	}
	for p := range lengths(all, 0, time.Now) {
		if p.length != "full" {
			t.Errorf("%s is %s", p.name, p.length)
		}
	}
}
