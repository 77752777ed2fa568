package interceptor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// Ruling is what a policy says of a call.
type Ruling string

// The rulings. The zero value is the careful one.
const (
	Ask   Ruling = ""
	Allow Ruling = "allow"
	Deny  Ruling = "deny"
)

// Verdict is a policy's ruling. Reason is shown to the person who is asked, or
// told to the model that is denied.
type Verdict struct {
	Ruling Ruling
	Reason string
}

// Policy rules on a call before it runs. One that errs, panics or gives an
// unknown ruling asks. The call is the policy's own. What it allowed is what
// runs: if a layer behind the approval changes the arguments, the call fails.
// After a crash it is asked again.
type Policy func(context.Context, tool.Call) (Verdict, error)

// ApprovalOptions configure Approval.
type ApprovalOptions struct {
	// Name is the layer's; default: "approval". Two approvals in one chain need
	// two names.
	Name  string
	Tools []string // the tools it is for; empty: all
	// Policy rules. The default allows what is read-only if Tools is empty, and
	// asks for everything else.
	Policy Policy
	// Timeout is how long an approval waits before it expires; default: 7 days.
	// A negative one is an error of agent.New.
	Timeout time.Duration
	Prompt  func(tool.Call) string
	// Approvers, if set, returns the actors who alone may decide about a call; none:
	// all whom the Authorizer lets. A decision of any other is refused.
	Approvers func(tool.Call) []string
	// Diff, if set, returns what the call would change, as a text for the person
	// who decides. The pause's Data has it, as {"diff": "..."}; the empty text is
	// left out.
	Diff func(tool.Call) string
	// Pure declares that Policy, Prompt, Approvers and Diff, where they are set,
	// are what [Layer.Pure] asks for. Without any of them an approval is pure by
	// itself.
	Pure bool
}

// Approval returns a layer that lets a person decide before a tool's body is
// entered. The decision is bound to the arguments that were shown: what was
// approved is what runs, by a person as by the policy. It is asked for once in
// a call's life.
func Approval(o *ApprovalOptions) Layer {
	if o == nil {
		o = &ApprovalOptions{}
	}
	name := o.Name
	if name == "" {
		name = "approval"
	}
	gate := approval{name: name, policy: o.Policy, timeout: o.Timeout, prompt: o.Prompt, diff: o.Diff,
		approvers: o.Approvers}
	if gate.policy == nil {
		gate.policy = askFor(len(o.Tools) == 0)
	}
	if gate.prompt == nil {
		gate.prompt = func(c tool.Call) string { return fmt.Sprintf("Run %s?", c.Tool) }
	}
	own := o.Policy == nil && o.Prompt == nil && o.Approvers == nil && o.Diff == nil
	l := Layer{Name: name, Tools: slices.Clone(o.Tools), Binds: true, Pure: own || o.Pure,
		Tool: gate.wrap}
	if o.Timeout < 0 {
		l.err = fmt.Errorf("ApprovalOptions.Timeout is %v: it must not be negative; zero is %v",
			o.Timeout, tool.DefaultApprovalTimeout)
	}
	return l
}

// askFor asks for every call, but lets read-only tools through where the layer
// wasn't given tools by name.
func askFor(allowReadOnly bool) Policy {
	return func(_ context.Context, c tool.Call) (Verdict, error) {
		if allowReadOnly && c.Effect == tool.ReadOnly {
			return Verdict{Ruling: Allow}, nil
		}
		return Verdict{}, nil
	}
}

type approval struct {
	name    string
	policy  Policy
	timeout time.Duration
	prompt  func(tool.Call) string
	diff    func(tool.Call) string // nil: none
	// approvers returns who may decide; nil: all
	approvers func(tool.Call) []string
}

func (a approval) wrap(next ToolHandler) ToolHandler {
	return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
		if d, decided := call.Decided(a.name); decided {
			if !d.Approved {
				return tool.Execution{}, tool.Denied(d.Reason)
			}
			if len(d.Arguments) > 0 {
				call.Arguments = d.Arguments
			}
			return next(ctx, call)
		}
		v := a.rule(ctx, call)
		switch v.Ruling {
		case Allow:
			return next(ctx, call)
		case Deny:
			return tool.Execution{}, tool.Denied(v.Reason)
		}
		prompt := a.prompt(call) // its own copy, of which nothing else is made
		if v.Reason != "" {
			prompt += " (" + v.Reason + ")"
		}
		data, err := a.data(call)
		if err != nil {
			return tool.Execution{}, err
		}
		await := &tool.Await{Reason: tool.ReasonApproval, Prompt: prompt, Timeout: a.timeout,
			Data: data}
		if a.approvers != nil {
			await.Approvers = a.approvers(call.Clone())
		}
		return tool.Execution{Await: await}, nil
	}
}

// data returns what a pause keeps beside its prompt.
func (a approval) data(call tool.Call) (json.RawMessage, error) {
	if a.diff == nil {
		return nil, nil
	}
	diff := a.diff(call.Clone())
	if diff == "" {
		return nil, nil
	}
	return json.Marshal(struct {
		Diff string `json:"diff"`
	}{diff})
}

// rule asks the policy; when in doubt, it asks a person.
func (a approval) rule(ctx context.Context, call tool.Call) (v Verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = Verdict{Ruling: Ask, Reason: "the policy failed"}
		}
	}()
	v, err := a.policy(ctx, call.Clone())
	if err != nil {
		return Verdict{Ruling: Ask, Reason: "the policy failed"}
	}
	return v
}
