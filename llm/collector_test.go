package llm

import (
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
)

func streamOf(events ...Event) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

var native = &Native{Provider: "acme", Data: raw(`{"sig":1}`)}

func TestCollect(t *testing.T) {
	type d = ToolCallDelta
	call := func(id, name, args string) ToolCall {
		return ToolCall{ProviderID: id, Name: name, Arguments: raw(args)}
	}
	whole := func(id, name, args string) PartDone {
		return PartDone{ToolCall{ProviderID: id, Name: name, Arguments: raw(args), Native: native}}
	}
	wholeCall := func(id, name, args string) ToolCall {
		return ToolCall{ProviderID: id, Name: name, Arguments: raw(args), Native: native}
	}
	for _, c := range []struct {
		name   string
		events []Event
		want   []Part
	}{
		{"nothing", nil, nil},
		{"nothing but empty deltas", []Event{TextDelta{}, ReasoningDelta{}}, nil},
		{"text in pieces", []Event{TextDelta{"Hel"}, TextDelta{""}, TextDelta{"lo"}, TextDelta{"!"}}, []Part{Text{Text: "Hello!"}}},
		{"a character in pieces", []Event{TextDelta{"\xe6\xb0"}, TextDelta{"\xb4"}}, []Part{Text{Text: "水"}}},
		{"invalid UTF-8", []Event{TextDelta{"a\xff"}}, []Part{Text{Text: "a\uFFFD"}}},
		{"reasoning, then text, then reasoning", []Event{ReasoningDelta{"h"}, ReasoningDelta{"m"}, TextDelta{"x"}, ReasoningDelta{"so"}},
			[]Part{Reasoning{Text: "hm"}, Text{Text: "x"}, Reasoning{Text: "so"}}},

		{"white space before a call", []Event{TextDelta{"\n"}, TextDelta{"\n"}, d{0, "a", "f", `{}`}, TextDelta{" "}}, []Part{call("a", "f", `{}`)}},
		{"nothing but white space", []Event{ReasoningDelta{" "}, TextDelta{"\n"}, PartDone{Text{" ", nil}}, PartDone{Reasoning{}}}, nil},
		{"white space in a form that its provider wants back", []Event{TextDelta{" "}, PartDone{Text{" ", native}}, PartDone{Reasoning{"", native}}},
			[]Part{Text{" ", native}, Reasoning{"", native}}},
		{"white space inside", []Event{TextDelta{"\n"}, TextDelta{"x"}, TextDelta{"\n"}}, []Part{Text{Text: "\nx\n"}}},

		{"one call at once", []Event{d{0, "a", "f", `{"p":1}`}}, []Part{call("a", "f", `{"p":1}`)}},
		{"no arguments", []Event{d{0, "a", "f", ``}}, []Part{call("a", "f", `{}`)}},
		{"arguments in pieces", []Event{d{0, "a", "f", ``}, d{Index: 0, Arguments: `{"p`}, d{Index: 0, Arguments: `":1}`}}, []Part{call("a", "f", `{"p":1}`)}},
		{"interleaved, the id only first", []Event{d{0, "a", "f", `{"p"`}, d{1, "b", "g", `[`}, d{Index: 0, Arguments: `:1}`}, d{Index: 1, Arguments: `]`}},
			[]Part{call("a", "f", `{"p":1}`), call("b", "g", `[]`)}},
		{"id and name sent again with each piece", []Event{d{0, "a", "f", `{"p"`}, d{0, "a", "f", `:1}`}}, []Part{call("a", "f", `{"p":1}`)}},
		{"name after the id", []Event{d{0, "a", "", ``}, d{0, "", "f", `{}`}}, []Part{call("a", "f", `{}`)}},
		{"id after the name", []Event{d{0, "", "f", ``}, d{0, "a", "", `{}`}}, []Part{call("a", "f", `{}`)}},
		{"no ids", []Event{d{0, "", "f", `{}`}, d{1, "", "f", `{}`}}, []Part{call("", "f", `{}`), call("", "f", `{}`)}},
		{"an id twice", []Event{d{0, "a", "f", `{}`}, d{1, "a", "f", `{}`}}, []Part{call("a", "f", `{}`), call("a", "f", `{}`)}},
		{"one index, two ids", []Event{d{0, "a", "f", `{"p":1}`}, d{0, "b", "f", `{"p":`}, d{Index: 0, Arguments: `2}`}},
			[]Part{call("a", "f", `{"p":1}`), call("b", "f", `{"p":2}`)}},
		{"order of first appearance", []Event{d{5, "b", "g", ``}, d{0, "a", "f", ``}, d{Index: 5, Arguments: `{}`}}, []Part{call("b", "g", `{}`), call("a", "f", `{}`)}},
		{"a call without a name", []Event{d{0, "a", "", `{}`}}, []Part{call("a", "", `{}`)}},
		{"broken arguments", []Event{d{0, "a", "f", `{"p":1`}}, []Part{call("a", "f", `"{\"p\":1"`)}},
		{"invalid UTF-8 in a call", []Event{d{0, "\xff", "\xff", "{\"p\":\"\xff\"}"}}, []Part{call("\uFFFD", "\uFFFD", "{\"p\":\"\uFFFD\"}")}},
		{"text around a call", []Event{TextDelta{"a"}, d{0, "a", "f", `{`}, TextDelta{"b"}, d{Index: 0, Arguments: `}`}, TextDelta{"c"}},
			[]Part{Text{Text: "a"}, call("a", "f", `{}`), Text{Text: "bc"}}},

		{"whole text in place of what was written", []Event{TextDelta{"He"}, TextDelta{"llo"}, PartDone{Text{"Hello", native}}, TextDelta{"more"}},
			[]Part{Text{"Hello", native}, Text{Text: "more"}}},
		{"whole reasoning in place of what was written", []Event{ReasoningDelta{"h"}, PartDone{Reasoning{"hm", native}}}, []Part{Reasoning{"hm", native}}},
		{"whole part of another kind", []Event{ReasoningDelta{"hm"}, PartDone{Text{"x", native}}, PartDone{Text{"y", nil}}},
			[]Part{Reasoning{Text: "hm"}, Text{"x", native}, Text{"y", nil}}},
		{"whole parts only their provider or a later version knows", []Event{TextDelta{"x"}, PartDone{Opaque{*native}}, PartDone{Unknown{Type: "u"}}, PartDone{Media{MediaType: "m", URL: "u"}}, TextDelta{"y"}},
			[]Part{Text{Text: "x"}, Opaque{*native}, Unknown{Type: "u"}, Media{MediaType: "m", URL: "u"}, Text{Text: "y"}}},

		{"whole call alone", []Event{TextDelta{"x"}, whole("a", "f", ` {"p":1}`)}, []Part{Text{Text: "x"}, wholeCall("a", "f", `{"p":1}`)}},
		{"whole call without arguments", []Event{whole("a", "f", ``)}, []Part{wholeCall("a", "f", `{}`)}},
		{"whole call in place of the streamed one", []Event{d{0, "a", "f", `{"p"`}, d{1, "b", "f", `{}`}, d{Index: 0, Arguments: `:1}`}, whole("a", "f", `{"p":1}`), whole("b", "f", ``)},
			[]Part{wholeCall("a", "f", `{"p":1}`), wholeCall("b", "f", `{}`)}},
		{"equal calls without ids, streamed, then whole", []Event{d{0, "", "f", `{}`}, d{1, "", "f", `{}`}, whole("", "f", `{}`), whole("", "f", `{}`)},
			[]Part{wholeCall("", "f", `{}`), wholeCall("", "f", `{}`)}},
		{"whole call beside a streamed one", []Event{d{0, "", "f", `{"p":1}`}, whole("", "f", `{"p":2}`)}, []Part{call("", "f", `{"p":1}`), wholeCall("", "f", `{"p":2}`)}},
		{"a new call under the index of one that came whole", []Event{d{0, "", "f", `{}`}, whole("", "f", `{}`), d{0, "", "f", `{}`}},
			[]Part{wholeCall("", "f", `{}`), call("", "f", `{}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := Finish{Reason: StopToolCalls, Usage: Usage{Input: 3, Output: 2}}
			got, fin, err := Collect(streamOf(append(c.events, end)...))
			if err != nil || fin != end {
				t.Fatalf("%v, %v", fin, err)
			}
			if d := cmp.Diff(Message{Role: RoleAssistant, Parts: c.want}, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}

			got, fin, err = Collect(streamOf(c.events...))
			var e *Error
			if !errors.As(err, &e) || e.Kind != ErrTruncated || !e.Retryable() || fin != (Finish{}) {
				t.Errorf("without an end: %v, %v", fin, err)
			}
			if d := cmp.Diff(Message{Role: RoleAssistant, Parts: c.want}, got); d != "" {
				t.Errorf("without an end (-want +got):\n%s", d)
			}
		})
	}
}

// A call that was cut off before its arguments came must not run as one without
// arguments.
func TestCallThatWasCutOff(t *testing.T) {
	type d = ToolCallDelta
	for name, c := range map[string]struct {
		events []Event
		reason StopReason
		cut    []bool // for each call
	}{
		"at once":                              {[]Event{d{0, "a", "f", ""}}, StopLength, []bool{true}},
		"after another call":                   {[]Event{d{0, "a", "f", ""}, d{1, "b", "g", ""}}, StopLength, []bool{true, true}},
		"after another call, which is whole":   {[]Event{PartDone{ToolCall{Name: "f", Arguments: raw("{}")}}, d{1, "b", "g", ""}}, StopLength, []bool{false, true}},
		"after another call's arguments":       {[]Event{d{0, "a", "f", "{}"}, d{1, "b", "g", ""}}, StopLength, []bool{false, true}},
		"whole, with empty arguments":          {[]Event{PartDone{ToolCall{Name: "f", Arguments: raw("{}")}}}, StopLength, []bool{true}},
		"in its arguments":                     {[]Event{d{0, "a", "f", `{"p":`}}, StopLength, []bool{true}},
		"after its arguments":                  {[]Event{d{0, "a", "f", `{"p":1}`}}, StopLength, []bool{false}},
		"in the text after it":                 {[]Event{d{0, "a", "f", ""}, TextDelta{"Let me"}}, StopLength, []bool{true}},
		"in pieces that make {}":               {[]Event{d{0, "a", "f", "{"}, d{Index: 0, Arguments: "}"}}, StopLength, []bool{true}},
		"by a filter":                          {[]Event{d{0, "a", "f", ""}}, StopRefusal, []bool{true}},
		"by a filter, in pieces that make {}":  {[]Event{d{0, "a", "f", "{}"}}, StopRefusal, []bool{true}},
		"for another reason":                   {[]Event{d{0, "a", "f", "{}"}, d{1, "b", "g", ""}}, StopOther, []bool{false, true}},
		"for another reason, in its arguments": {[]Event{d{0, "a", "f", `{"p":`}}, StopOther, []bool{true}},
		"for another reason, pieces make {}":   {[]Event{d{0, "a", "f", "{"}, d{Index: 0, Arguments: "}"}}, StopOther, []bool{false}},
		"for another reason, whole with {}":    {[]Event{PartDone{ToolCall{Name: "f", Arguments: raw("{}")}}}, StopOther, []bool{false}},
		"before text":                          {[]Event{d{0, "a", "f", "{}"}, TextDelta{"and"}}, StopLength, []bool{true}},
		"before reasoning":                     {[]Event{d{0, "a", "f", ""}, ReasoningDelta{"hm"}, d{Index: 0, Arguments: "{}"}}, StopRefusal, []bool{true}},
		"before a signature":                   {[]Event{PartDone{ToolCall{Name: "f"}}, PartDone{Opaque{*native}}}, StopLength, []bool{true}},
		"last of two, before a signature":      {[]Event{d{0, "a", "f", "{}"}, d{1, "b", "g", "{}"}, PartDone{Reasoning{"", native}}}, StopLength, []bool{false, true}},
		"not at all":                           {[]Event{d{0, "a", "f", ""}}, StopToolCalls, []bool{false}},
	} {
		m, fin, err := Collect(streamOf(append(c.events, Finish{Reason: c.reason})...))
		if err != nil || fin.Reason != c.reason || len(m.ToolCalls()) != len(c.cut) {
			t.Fatalf("%s: %v, %v, %v", name, m, fin, err)
		}
		for i, call := range m.ToolCalls() {
			_, err := Arguments(call.Arguments)
			if _, again := Arguments(decode(t, encode(t, m)).ToolCalls()[i].Arguments); (err != nil) != c.cut[i] || (again != nil) != c.cut[i] {
				t.Errorf("%s: call %d has the arguments %s: %v, %v", name, i, call.Arguments, err, again)
			}
		}
	}
}

// TestCallCutOffForAnotherReason: a provider's word that no adapter knows, such
// as Mistral's model_length or vLLM's abort, may be a limit.
func TestCallCutOffForAnotherReason(t *testing.T) {
	for reason, cut := range map[StopReason]bool{StopEnd: false, StopToolCalls: false, StopLength: true, StopRefusal: true, StopOther: true} {
		var c Collector
		for _, e := range []Event{ToolCallDelta{ProviderID: "c", Name: "delete_all"}, Finish{Reason: reason}} {
			if err := c.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		m, _, err := c.Message()
		if err != nil {
			t.Fatal(err)
		}
		if args := string(m.ToolCalls()[0].Arguments); (args != "{}") != cut {
			t.Errorf("%s: %s", reason, args)
		}
	}
}

func TestStreamsThatBreakTheRulesAreErrors(t *testing.T) {
	type d = ToolCallDelta
	for _, c := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"a fragment for no call", []Event{TextDelta{"x"}, d{Index: 1, Arguments: `{"p":1}`}}, "arguments for index 1, where no call began: \"{\\\"p\\\":1}\""},
		{"a fragment for another index", []Event{d{0, "a", "f", ``}, d{Index: 1, Arguments: `{}`}}, "arguments for index 1, where no call began"},
		{"two names", []Event{d{0, "", "f", ``}, d{0, "", "g", ``}}, `index 0 names the tools "f" and "g"`},
		{"two names for one id", []Event{d{0, "a", "f", ``}, d{0, "a", "g", ``}}, `index 0 names the tools "f" and "g"`},
		{"a name again without the id", []Event{d{0, "a", "f", `{}`}, d{0, "", "f", `{}`}}, `index 0 names the tool "f" again`},
		{"a name again without any id", []Event{d{0, "", "f", ``}, d{0, "", "f", ``}}, `index 0 names the tool "f" again`},
		{"a name again with a late id", []Event{d{0, "", "f", ``}, d{0, "a", "f", ``}}, `index 0 names the tool "f" again`},
		{"other arguments whole", []Event{d{0, "a", "f", `{"p":1}`}, PartDone{ToolCall{ProviderID: "a", Name: "f", Arguments: raw(`{"p":2}`)}}},
			`call "a" came with other arguments whole than in pieces: "{\"p\":2}" and "{\"p\":1}"`},
		{"more of a call that came whole", []Event{d{0, "a", "f", ``}, PartDone{ToolCall{ProviderID: "a", Name: "f"}}, d{0, "a", "f", `{}`}}, `more of call "a", which has come whole`},
		{"a fragment of a call that came whole", []Event{d{0, "a", "f", ``}, PartDone{ToolCall{ProviderID: "a", Name: "f"}}, d{Index: 0, Arguments: `{}`}}, "where no call began"},
		{"a result", []Event{PartDone{ToolResult{}}}, "llm.ToolResult doesn't belong in a message of role assistant"},
		{"no part", []Event{PartDone{}}, "<nil> doesn't belong in a message of role assistant"},
		{"a pointer", []Event{PartDone{&Text{}}}, "*llm.Text doesn't belong in a message of role assistant"},
		{"no event", []Event{nil}, "<nil> is no event"},
		{"a pointer to an event", []Event{&TextDelta{}}, "*llm.TextDelta is no event"},
		{"more after the end", []Event{Finish{}, TextDelta{"x"}}, "llm.TextDelta comes after the end"},
		{"two ends", []Event{Finish{}, Finish{}}, "llm.Finish comes after the end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			last := len(c.events) - 1
			before, _, _ := Collect(streamOf(c.events[:last]...))
			got, _, err := Collect(streamOf(c.events...))
			var e *Error
			if !errors.As(err, &e) || e.Kind != ErrMalformed || e.Retryable() || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if d := cmp.Diff(before, got); d != "" {
				t.Errorf("the event left traces (-before +after):\n%s", d)
			}
		})
	}
}

// Whatever a message is made of, it is bounded: a part that holds next to
// nothing takes room, too.
func TestEachPartCountsToTheLimit(t *testing.T) {
	for name, next := range map[string]func(i int) Event{
		"calls in deltas": func(i int) Event { return ToolCallDelta{Index: i, Name: "f"} },
		"calls at once":   func(i int) Event { return PartDone{ToolCall{Name: "f"}} },
		"text and reasoning in turn": func(i int) Event {
			if i%2 == 0 {
				return TextDelta{"x"}
			}
			return ReasoningDelta{"x"}
		},
	} {
		const most = 100
		c := Collector{Limit: most * partCost}
		n, err := 0, error(nil)
		for ; err == nil && n <= most; n++ {
			err = c.Add(next(n))
		}
		var e *Error
		if !errors.As(err, &e) || e.Kind != ErrTooLong || e.Retryable() {
			t.Errorf("%s: after %d events: %v", name, n, err)
		}
	}
}

func TestCallsOfAMessageAreBounded(t *testing.T) {
	for name, call := range map[string]func(i int) Event{
		"in deltas": func(i int) Event { return ToolCallDelta{Index: i, Name: "f", Arguments: "{}"} },
		"at once":   func(int) Event { return PartDone{ToolCall{Name: "f"}} },
	} {
		var c Collector
		for i := range MaxCalls {
			if err := c.Add(call(i)); err != nil {
				t.Fatalf("%s: call %d: %v", name, i, err)
			}
		}
		err := c.Add(call(MaxCalls))
		var e *Error
		if !errors.As(err, &e) || e.Kind != ErrTooLong || !strings.Contains(err.Error(), "512 tool calls") {
			t.Errorf("%s: %v", name, err)
		}
		if m, _, _ := c.Message(); len(m.ToolCalls()) != MaxCalls {
			t.Errorf("%s: %d calls are left", name, len(m.ToolCalls()))
		}
	}
}

// A call that is streamed, and then comes whole, is one.
func TestCallsThatComeTwiceCountOnce(t *testing.T) {
	var c Collector
	for i := range MaxCalls {
		id := strconv.Itoa(i)
		for _, e := range []Event{ToolCallDelta{i, id, "f", "{}"}, PartDone{ToolCall{ProviderID: id, Name: "f", Native: native}}} {
			if err := c.Add(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m, _, _ := c.Message(); len(m.ToolCalls()) != MaxCalls {
		t.Errorf("%d calls", len(m.ToolCalls()))
	}
}

// With many calls, too, a piece goes to the newest one of its index.
func TestPiecesOfManyCallsFindTheNewest(t *testing.T) {
	const many = 40
	var c Collector
	add := func(e Event) {
		t.Helper()
		if err := c.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, turn := range []string{"old", "new"} {
		for i := range many {
			id := turn + strconv.Itoa(i)
			add(ToolCallDelta{Index: -i, ProviderID: id, Name: "f", Arguments: `{"id":"`})
			want = append(want, id)
			if turn == "old" {
				add(ToolCallDelta{Index: -i, Arguments: id + `"}`})
			}
		}
	}
	for i := range many {
		add(ToolCallDelta{Index: -i, Arguments: "new" + strconv.Itoa(i) + `"}`})
	}
	add(Finish{Reason: StopToolCalls})
	m, _, err := c.Message()
	if err != nil || len(m.ToolCalls()) != len(want) {
		t.Fatalf("%d calls, %v", len(m.ToolCalls()), err)
	}
	for i, call := range m.ToolCalls() {
		if call.ProviderID != want[i] || string(call.Arguments) != `{"id":"`+want[i]+`"}` {
			t.Errorf("call %d is %q with %s, want %q", i, call.ProviderID, call.Arguments, want[i])
		}
	}
	var none Collector
	for i := range many {
		if err := none.Add(ToolCallDelta{Index: i, Name: "f"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := none.Add(ToolCallDelta{Index: many, Arguments: "{}"}); err == nil || !strings.Contains(err.Error(), "where no call began") {
		t.Error(err)
	}
}

func TestCollectHandsOnErrors(t *testing.T) {
	boom := errors.New("boom")
	got, fin, err := Collect(func(yield func(Event, error) bool) {
		_ = yield(TextDelta{"so far"}, nil) && yield(nil, boom)
	})
	if err != boom || fin != (Finish{}) || got.Text() != "so far" {
		t.Errorf("%v, %v, %v", got, fin, err)
	}
}

func TestPartialMessageIsNotChangedByWhatFollows(t *testing.T) {
	var c Collector
	add := func(e Event) {
		t.Helper()
		if err := c.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	add(ToolCallDelta{0, "a", "f", `{"p":`})
	add(ToolCallDelta{Index: 0, Arguments: `[1]}`})
	add(TextDelta{"x"})
	add(TextDelta{"y"})
	early, _, _ := c.Message()
	want := encode(t, early)
	add(TextDelta{"z"})
	add(ToolCallDelta{Index: 0, Arguments: ` `})
	add(PartDone{ToolCall{ProviderID: "a", Name: "f", Arguments: raw(`{"p":[1]}`), Native: native}})
	if got := encode(t, early); got != want {
		t.Errorf("%s\nbecame\n%s", want, got)
	}
}

// However calls are cut up and mixed, they come out as they went in.
func TestInterleavedCallsAreNeverGlued(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		var want []Part
		var queues [][]Event
		for i := range rapid.IntRange(1, 4).Draw(t, "calls") {
			args, id := anyJSON().Draw(t, "args"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "id")
			stored, _ := Arguments(args)
			want = append(want, ToolCall{ProviderID: id, Name: "f", Arguments: stored})
			q := []Event{ToolCallDelta{Index: 7 - i, ProviderID: id, Name: "f"}}
			for rest := string(args); rest != ""; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "cut") // also within a character
				q, rest = append(q, ToolCallDelta{Index: 7 - i, Arguments: rest[:n]}), rest[n:]
			}
			queues = append(queues, q)
		}
		var events []Event
		for _, q := range queues { // beginnings in order, the rest mixed
			events = append(events, q[0])
		}
		for i := range queues {
			queues[i] = queues[i][1:]
		}
		for len(queues) > 0 {
			i := rapid.IntRange(0, len(queues)-1).Draw(t, "next")
			if len(queues[i]) == 0 {
				queues = slices.Delete(queues, i, i+1)
				continue
			}
			events, queues[i] = append(events, queues[i][0]), queues[i][1:]
		}
		got, _, err := Collect(streamOf(append(events, Finish{})...))
		if d := cmp.Diff(Message{Role: RoleAssistant, Parts: want}, got); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
	})
}

func TestCollectorAllocations(t *testing.T) {
	one := []Event{ToolCallDelta{0, "call_0", "deploy", `{"service":"checkout"}`}, Finish{}}
	var text []Event
	for range 100 {
		text = append(text, TextDelta{"token "})
	}
	text = append(text, Finish{})
	for name, c := range map[string]struct {
		events []Event
		most   float64
	}{
		// The list of parts, in the making and done; for a call, its state; the
		// part, and its text or arguments.
		"one call":         {one, 5},
		"text in 100 bits": {text, 6},
	} {
		got := testing.AllocsPerRun(100, func() {
			var col Collector
			for _, e := range c.events {
				_ = col.Add(e)
			}
			_, _, _ = col.Message()
		})
		if got > c.most {
			t.Errorf("%s: %v allocations, at most %v are allowed", name, got, c.most)
		}
	}
}
