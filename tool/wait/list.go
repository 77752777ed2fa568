package wait

import (
	"cmp"
	"context"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// list lists handles.
type list struct{ base }

type listInput struct {
	Status string `json:"status"`
	Type   string `json:"type"`
	Limit  millis `json:"limit"`
	Cursor string `json:"cursor"`
}

// Execute returns a page.
func (t *list) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[listInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	f := waits.Filter{Scope: t.config.Scope, Limit: cmp.Or(int(in.Limit), waits.DefaultLimit),
		Cursor: in.Cursor}
	if in.Status != waits.All {
		f.Status = tool.WaitStatus(in.Status)
	}
	if in.Type != waits.All {
		f.Type = tool.WaitType(in.Type)
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	p, err := host.ListWaits(ctx, c, f)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	return reply(waits.ListedPage(&p, &f, waits.Now(c)))
}
