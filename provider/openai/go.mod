module github.com/fermata-ai/fermata/provider/openai

go 1.26.0

replace github.com/fermata-ai/fermata => ../..

require (
	github.com/fermata-ai/fermata v0.0.0
	github.com/openai/openai-go/v3 v3.98.0
)
