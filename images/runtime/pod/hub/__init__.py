"""The Hugging Face Hub, from inside a pod. Only `transfer` loads huggingface_hub, and only in a child process."""
