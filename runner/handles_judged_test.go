package runner_test

import (
	"context"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/llm"
)

// check judges what a round has come to.
func (rd *awaitRound) check(all *awaitTally) {
	t, ctx := rd.t, context.Background()
	st := rd.load(rd.id)
	if len(st.Calls) > 0 || st.Handles != 0 || st.Kept != 0 || st.Finish != event.FinishStop {
		t.Errorf("%s is left with %+v", rd.id, st)
	}
	shown, err := rd.r.Show(ctx, rd.id, user)
	must(t, err)
	outputs, told := []string{}, map[string]int{}
	for _, m := range shown.History {
		for _, n := range m.Notices() {
			told[n.Handle]++
		}
		for _, p := range m.Parts {
			if r, ok := p.(llm.ToolResult); ok && r.Name == handles.AwaitTool {
				outputs = append(outputs, string(r.Output))
			}
		}
	}
	cancelled := len(outputs) == 1 && len(rd.tells) == 0 && rd.stops.Load() > 0 &&
		strings.HasPrefix(outputs[0], `"Cancelled: enough.`) // before it waited
	if !cancelled && (len(outputs) != 1 || len(rd.tells) == 0 ||
		rd.tells[len(rd.tells)-1].output != outputs[0]) {
		t.Fatalf("%s: the await has told %+v, and its results are %q", rd.id, rd.tells, outputs)
	}
	all.rounds++
	if cancelled {
		all.cancelled++
	} else {
		rd.judgeTold(outputs[0], told, all)
	}
	if rd.program.stopped != nil {
		if !rd.met(func(name string) bool { _, is := rd.program.stopped[name]; return is }) {
			t.Errorf("%s: a program's await of %+v tells %v", rd.id, rd.wait, rd.program.stopped)
		}
		rd.judge("a program", rd.program, func(status event.Status, output, told string) bool {
			return told == string(status)+" "+output
		})
	}
	for _, name := range []string{"a", "b", "c"} {
		if h := rd.record(name); h.Open() || len(h.Awaits) > 0 || told[name] != 1 {
			t.Errorf("%s: of %s the model was told %d times; it is %+v", rd.id, name, told[name], h)
		}
	}
}

// judgeTold judges what the model is told, and counts of which handles.
func (rd *awaitRound) judgeTold(output string, told map[string]int, all *awaitTally) {
	t := rd.t
	var got handles.Awaited
	must(t, got.UnmarshalJSON([]byte(output)))
	tells := rd.tells[len(rd.tells)-1] // an interruption that was overtaken has told before
	tells.stopped = map[string]string{}
	for _, r := range got.Completed {
		told[r.ID]++
		tells.stopped[r.ID] = string(r.Result)
		if r.Error != nil {
			tells.stopped[r.ID] = r.Error.Message
		}
	}
	if named := len(got.Completed) + len(got.Pending); named != len(rd.names()) {
		t.Errorf("%s: the await tells of %d handles", rd.id, named)
	}
	met := rd.met(func(name string) bool { _, is := tells.stopped[name]; return is })
	by := rd.stops.Load()
	switch cut := by > 0 && by < tells.to; {
	case got.TimedOut && got.Interrupted, (got.TimedOut || got.Interrupted) && !cut,
		got.TimedOut && met, !got.TimedOut && !got.Interrupted && !met:
		t.Errorf("%s: the await of %+v tells %s", rd.id, rd.wait, output)
	}
	rd.judge("the model", tells, func(status event.Status, output, told string) bool {
		if status == event.Done {
			return told == output
		}
		return strings.Contains(output, " in "+rd.id) && strings.Contains(told, strings.Trim(output, `"`))
	})
	switch {
	case got.TimedOut:
		all.timedOut++
	case got.Interrupted:
		all.interrupted++
	default:
		all.met++
	}
}

func (rd *awaitRound) names() []string {
	names := slices.Concat(rd.wait.All, rd.wait.Any)
	slices.Sort(names)
	return slices.Compact(names)
}

// judge holds what an await has told against what has happened: what was known
// to have stopped before it looked has stopped, and what was ended after it had
// told has not.
func (rd *awaitRound) judge(
	whom string, tells telling, is func(status event.Status, output, told string) bool,
) {
	t := rd.t
	for _, name := range rd.names() {
		h := rd.record(name)
		rec, _, err := rd.r.store.Record(context.Background(), h.Child, h.Call)
		must(t, err)
		if rec.Status != h.Status {
			t.Errorf("%s: %s has ended as %q, and its session knows of %q", rd.id, name, rec.Status,
				h.Status)
		}
		told, stopped := tells.stopped[name]
		switch {
		case !stopped && rd.known[name] < tells.from:
			t.Errorf("%s: %s is told that %s goes on, which had stopped", rd.id, whom, name)
		case stopped && rd.begun[name] > tells.to:
			t.Errorf("%s: %s is told that %s has stopped, which went on", rd.id, whom, name)
		case stopped && !is(rec.Status, string(rec.Output.JSON()), told):
			t.Errorf("%s: %s is told that %s came to %s, and it came to %q %s", rd.id, whom, name,
				told, rec.Status, rec.Output.JSON())
		}
	}
}
