package toolbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

func TestAnOutcomeIsDecidedInOnePlace(t *testing.T) {
	await := &tool.Await{Reason: tool.ReasonInput}
	actions := []tool.Action{{Artifact: &tool.Artifact{Name: "x"}}}
	boom := errors.New("boom <&> \xff")
	for name, c := range map[string]struct {
		exec   tool.Execution
		err    error
		status toolbox.Status
		output string
	}{
		"nothing": {tool.Execution{}, nil, toolbox.Done, "null"},
		"an output": {tool.Execution{Output: json.RawMessage("1"), Actions: actions}, nil,
			toolbox.Done, "1"},
		"an await": {
			tool.Execution{Output: json.RawMessage("1"), Await: await, Actions: actions}, nil,
			toolbox.Paused, ""},
		"an error": {
			tool.Execution{Output: json.RawMessage("1"), Await: await, Actions: actions}, boom,
			toolbox.Failed, `"boom <&> ` + "\ufffd" + `"`},
		"a denial": {tool.Execution{}, fmt.Errorf("gate: %w", tool.Denied("too much")),
			toolbox.Denied,
			`"gate: The call was refused, and the tool was not run. Do not try again unless you ` +
				`are told to. Reason: too much"`},
		"a denial, bare": {tool.Execution{}, tool.Denied(""), toolbox.Denied,
			`"The call was refused, and the tool was not run. Do not try again unless you are ` +
				`told to."`},
		"a fatal error": {tool.Execution{Await: await}, tool.Fatal(boom), toolbox.Fatal,
			`"boom <&> ` + "\ufffd" + `"`},
		"a fatal denial": {tool.Execution{}, tool.Fatal(tool.Denied("")), toolbox.Fatal,
			`"The call was refused, and the tool was not run. Do not try again unless you are ` +
				`told to."`},
		"a fatal nil": {tool.Execution{}, tool.Fatal(nil), toolbox.Done, "null"},
		"a cancellation": {tool.Execution{}, context.Canceled, toolbox.Failed,
			`"context canceled"`},
		"an error panics": {tool.Execution{}, &tool.PanicError{Tool: "a"}, toolbox.Failed,
			`"a ended its goroutine before it had a result"`},
		"a refused call": {tool.Execution{}, &tool.Refusal{Text: "no"}, toolbox.Failed, `"no"`},
	} {
		o := toolbox.Resolve(c.exec, c.err)
		if o.Status != c.status || string(o.Output) != c.output || !errors.Is(o.Err, c.err) {
			t.Errorf("%s: %+v, %s", name, o, o.Output)
		}
		if (o.Await != nil) != (o.Status == toolbox.Paused) || o.Actions != nil && c.err != nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
	long := toolbox.Text(strings.Repeat("\u00e4", (8 << 10)))
	if len(long) > (8<<10)+100 || !strings.HasSuffix(string(long), ` ... (8192 bytes more)"`) {
		t.Errorf("%d bytes: %s", len(long), long[len(long)-40:])
	}
	if string(modeltext.CleanJSON(long)) != string(long) {
		t.Error("the text was cut within a character")
	}
}
